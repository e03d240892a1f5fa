"""Starts the recipes of the guide about mounting the dashboard, and asks them as a browser does."""

import os
import re
import shlex
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import httpx

from mita import Mita
from tests.docs.pages import ROOT, all_blocks
from tests.waiting import wait_until

GUIDE = ROOT / "docs" / "guide" / "dashboard-mount.md"
PAGES = ("", "jobs", "dead", "queues", "flows", "repeats", "keys", "workers", "audit")
_LINK = re.compile(r'(?:href|src|action)="(/[^"]*)"')


def save_recipes(folder: Path) -> None:
    """Save the files of the guide in this folder."""
    for block in all_blocks(GUIDE):
        if block.file is not None:
            path = folder / block.file
            path.parent.mkdir(exist_ok=True)
            path.write_text(block.text)


def command_of(app: str) -> list[str]:
    """The words with which the guide starts an app."""
    lines = [line for block in all_blocks(GUIDE) for line in block.text.splitlines()]
    [line] = [line for line in lines if line.startswith(f"uvicorn {app} ")]
    return shlex.split(line)[1:]


@contextmanager
def started(app: str, folder: Path) -> Iterator[str]:
    """Serve an app as the guide says, on a free port. Yields its address. It must end by itself
    after Ctrl-C."""
    words = [word for word in command_of(app) if word not in ("--port", "8787")]
    log = folder / "server.log"
    with log.open("w") as output:
        process = subprocess.Popen(
            [sys.executable, "-m", "uvicorn", *words, "--port", "0"],
            cwd=folder,
            env={**os.environ, "PYTHONPATH": str(folder), "PYTHONUNBUFFERED": "1"},
            stdout=output,
            stderr=output,
        )
    try:

        def running() -> re.Match[str] | None:
            assert process.poll() is None, log.read_text()
            return re.search(r"running on (http://\S+)", log.read_text())

        yield wait_until(running)[1]
        process.send_signal(signal.SIGINT)
        process.wait(60)
    finally:
        if process.poll() is None:
            process.kill()
            process.wait()


def check_pages(client: httpx.Client, prefix: str) -> None:
    """Every page, and everything that it links to, is below the prefix."""
    for name in PAGES:
        page = client.get(f"{prefix}/{name}")
        assert page.status_code == 200, (name, page.text)
        links = set(_LINK.findall(page.text))
        assert links
        assert all(link.startswith(f"{prefix}/") for link in links), links
        assert f'data-root="{prefix}"' in page.text
    for link in [link for link in links if "/static/" in link]:
        assert client.get(link).status_code == 200, link
    for odd in ("/jobs/", "/flows/"):
        answer = client.get(f"{prefix}{odd}")
        assert answer.headers["location"] == f"{prefix}{odd[:-1]}"
    assert client.get(f"{prefix}/nothing").status_code == 404


def check_act(client: httpx.Client, prefix: str, origin: str) -> None:
    """A form changes something, goes back to its page below the prefix, and says so there."""
    page = f"{prefix}/queues"
    headers = {"origin": origin, "referer": f"{origin}{page}", "sec-fetch-site": "same-origin"}
    form = {"act": "pause", "queue": "default"}
    answer = client.post(f"{prefix}/queues/act", data=form, headers=headers)
    assert (answer.status_code, answer.headers["location"]) == (303, page), answer.text
    [cookie] = answer.headers.get_list("set-cookie")
    assert re.search(rf"Path={prefix or '/'};", cookie), cookie
    told = client.get(page).text
    assert re.search(r'class="note" role="status">[^<]*default', told), told
    foreign = {**headers, "origin": "https://evil.example", "sec-fetch-site": "cross-site"}
    assert client.post(f"{prefix}/queues/act", data=form, headers=foreign).status_code == 403


def check_live(client: httpx.Client, prefix: str, file: Path) -> None:
    """A page hears of a job that another process has enqueued."""
    with client.stream("GET", f"{prefix}/live", timeout=60) as answer:
        assert answer.headers["content-type"].startswith("text/event-stream")
        if "nginx" not in answer.headers.get("server", ""):  # which obeys it, and keeps it
            assert answer.headers["x-accel-buffering"] == "no"
        lines = answer.iter_lines()
        for line in lines:
            if line == "event: change":
                break
            if line in ("event: hello", "event: tick"):  # hello may come before the subscription
                enqueue_one(file)
        else:
            raise AssertionError("the stream ended without a change")


def enqueue_one(file: Path) -> None:
    """Enqueue a job into this store."""
    app = Mita(f"sqlite:///{file}")

    @app.task
    def greet(name: str) -> None: ...

    greet.enqueue_sync("Ada")
    app.close_sync()
