"""The crawler reads every page of a site once, on Redis and NATS."""

import os
import subprocess
import sys
import threading
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from mita import Mita
from tests.e2e.stores import STORES
from tests.waiting import wait_until

FOLDER = Path(__file__).parents[2] / "examples" / "crawler"
PAGES = {
    "/": '<title>home</title><a href="/a">a</a><a href="/b#top">b</a><a href="/gone">x</a>',
    "/a": '<title>a</title><a href="/">home</a><a href="/b">b</a>',
    "/b": '<title>b</title><a href="https://elsewhere.invalid/">no</a><a href="/slow">s</a>',
    "/slow": "<title>slow</title>",
}


class Site:
    """A small site. `/slow` is busy at first."""

    def __init__(self) -> None:
        self.seen: Counter[str] = Counter()
        self.server = ThreadingHTTPServer(("127.0.0.1", 0), self._handler())
        self.url = f"http://127.0.0.1:{self.server.server_address[1]}/"

    def _handler(self) -> type[BaseHTTPRequestHandler]:
        site = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                site.seen[self.path] += 1
                busy = self.path == "/slow" and site.seen[self.path] == 1
                found = PAGES.get(self.path)
                self.send_response(429 if busy else 200 if found else 404)
                if busy:
                    self.send_header("Retry-After", "0.2")
                self.end_headers()
                self.wfile.write((found or "").encode())

            def log_message(self, *_: object) -> None:
                """Say nothing."""

        return Handler


@contextmanager
def served() -> Iterator[Site]:
    site = Site()
    thread = threading.Thread(target=site.server.serve_forever)
    thread.start()
    try:
        yield site
    finally:
        site.server.shutdown()
        thread.join()
        site.server.server_close()


@pytest.mark.parametrize("store", ["redis", "nats"])
def test_every_page_is_read_once(store: str, tmp_path: Path) -> None:
    with STORES[store](tmp_path) as url, served() as site:
        environment = {**os.environ, "MITA_URL": url, "PYTHONDONTWRITEBYTECODE": "1"}
        worker = subprocess.Popen(
            [sys.executable, "-m", "mita", "worker", "crawler:app"],
            cwd=FOLDER,
            env=environment,
            stderr=subprocess.DEVNULL,
        )
        try:
            start = [sys.executable, "crawler.py", site.url]
            subprocess.run(start, cwd=FOLDER, env=environment, check=True)
            with Mita(url).using_sync(url) as app:
                wait_until(lambda: app.counts_sync().get("default", {}).get("succeeded") == 4)
                titles = {job.result for job in app.jobs_sync(state="succeeded").jobs}
                app.close_sync()
        finally:
            worker.terminate()
            worker.wait()
    assert titles == {"home", "a", "b", "slow"}
    assert {path: site.seen[path] for path in PAGES} == {"/": 1, "/a": 1, "/b": 1, "/slow": 2}
