"""`mita web` and `mita demo --web`: they serve pages until they are stopped, and end in order."""

import os
import re
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

import httpx
import pytest

from tests.waiting import wait_until

from .conftest import Run


class Serving(NamedTuple):
    """A process that serves pages: its address, and what it has printed."""

    process: subprocess.Popen[bytes]
    address: str
    log: Path


@contextmanager
def serving(folder: Path, *words: str, **environment: str) -> Iterator[Serving]:
    """Run `mita …` until the end of the block, on a port of its own."""
    log = folder / "web.log"
    with log.open("w") as output:
        process = subprocess.Popen(
            [sys.executable, "-m", "mita", *words],
            stdout=output,
            stderr=output,
            env={**os.environ, "PYTHONUNBUFFERED": "1", **environment},
        )
    try:

        def address() -> re.Match[str] | None:
            assert process.poll() is None, log.read_text()
            return re.search(r" at (http://\S+)", log.read_text())

        yield Serving(process, wait_until(address)[1], log)
    finally:
        if process.poll() is None:
            process.kill()
        process.wait()


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_it_ends_in_order_although_a_page_is_open(
    project: Path, shell: Run, number: signal.Signals
) -> None:
    assert shell("enqueue", "greet", "Ada", "--app", "shop:app").code == 0
    with serving(project, "web", "shop:app", "--port", "0", "--prefix", "/ops") as web:
        assert web.address.endswith("/ops/")
        with httpx.Client() as client, client.stream("GET", f"{web.address}live") as answer:
            lines = answer.iter_lines()
            assert any(line == "event: hello" for line in lines)
            web.process.send_signal(number)
            assert not any(line == "event: change" for line in lines), "the stream has ended"
        assert web.process.wait(60) == 0
        said = web.log.read_text()
    assert "Traceback" not in said
    assert "ERROR" not in said
    assert said.splitlines()[0].startswith("the dashboard of sqlite file ")


def test_another_address_gets_a_token_that_is_printed_once(project: Path, shell: Run) -> None:
    assert shell("enqueue", "greet", "Ada", "--app", "shop:app").code == 0
    with serving(project, "web", "--host", "0.0.0.0", "--port", "0") as web:
        [token] = re.findall(r"the token, printed only now: (\S+)", web.log.read_text())
        here = web.address.replace("0.0.0.0", "127.0.0.1")
        assert httpx.get(here).headers["location"] == "/login"
        bearer = {"authorization": f"Bearer {token}"}
        assert httpx.get(here, headers=bearer).status_code == 200


def test_wrong_options_say_what_to_give(mita: Run, project: Path) -> None:
    assert mita("enqueue", "greet", "Ada", "--app", "shop:app").code == 0
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = str(taken.getsockname()[1])
        for words, complaint in (
            (["--port", port], f"cannot listen at 127.0.0.1, port {port}: Address already in use"),
            (["--host", "192.0.2.1", "--port", "0"], "cannot listen at 192.0.2.1"),
            (["--port", "70000"], "give a port"),
            (["--prefix", "ops"], "the prefix 'ops' is not a path"),
            (["--token", "short"], "the token is too short"),
        ):
            said = mita("web", "shop:app", *words)
            assert said.code == 2, words
            assert complaint in said.err


def test_the_demo_serves_a_shop_in_which_jobs_go_on(project: Path) -> None:
    with serving(project, "demo", "--web", "--keep", "shop.db") as web:
        assert httpx.get(web.address).status_code == 200
        wait_until(lambda: "shop-live" in httpx.get(f"{web.address}workers").text)
        wait_until(lambda: "6001" in httpx.get(f"{web.address}jobs?tag=order:6001").text)
        web.process.send_signal(signal.SIGINT)
        assert web.process.wait(60) == 0
        said = web.log.read_text()
    assert "Traceback" not in said
    assert "web --url sqlite:///" in said.splitlines()[-1], "the kept file can be looked at again"


def test_the_demo_without_what_the_dashboard_needs_says_what_to_install(
    mita: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "uvicorn", None)
    said = mita("demo", "--web")
    assert (said.code, "pip install 'mita[web]'" in said.err) == (2, True)
    assert "pip install 'mita[web]'" in mita("web").err
