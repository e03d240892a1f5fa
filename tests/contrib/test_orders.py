"""The example examples/orders: followed as its README says on SQLite, and run on PostgreSQL with a
real web server and a real worker."""

import os
import re
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import httpx
import psycopg
import pytest

from mita import Mita
from tests.docs.pages import blocks
from tests.docs.reader import Reader
from tests.stores.postgres.shared import server
from tests.waiting import wait_until

EXAMPLE = Path(__file__).parents[2] / "examples" / "orders"
GLUE_LINES = 10


def test_the_glue_is_small() -> None:
    lines = (EXAMPLE / "service.py").read_text().splitlines()
    marked = [line for line in lines if line.endswith("# Mita")]
    names = re.compile(r"\bmita\b|\bMita\(|\bapp\b|lifespan\(|\.enqueue\(|Outbox")
    code = [line for line in lines[5:] if "FastAPI]" not in line]
    assert [line for line in code if names.search(line) and line not in marked] == []
    assert len(marked) <= GLUE_LINES


def test_the_readme_can_be_followed(tmp_path: Path) -> None:
    shutil.copy(EXAMPLE / "service.py", tmp_path)
    reader = Reader(tmp_path)
    try:
        for block in blocks(EXAMPLE / "README.md"):
            reader.do(block)
    finally:
        reader.leave()


@pytest.fixture
def database() -> Iterator[str]:
    """An empty database."""
    name = f"shop{os.getpid()}"
    with psycopg.connect(server("pg18").url(), autocommit=True) as connection:
        connection.execute(f"create database {name}".encode())
        yield server("pg18").url(name)
        connection.execute(f"drop database {name} with (force)".encode())


@contextmanager
def running(folder: Path, url: str, *command: str) -> Iterator[Path]:
    """Run a program until the end of the block. Gives the file with what it prints."""
    printed = folder / f"{command[1]}-{command[2]}.log"
    with printed.open("w") as log:
        program = subprocess.Popen(
            [sys.executable, *command],
            cwd=folder,
            stdout=log,
            stderr=subprocess.STDOUT,
            env={**os.environ, "DATABASE_URL": url, "PYTHONUNBUFFERED": "1"},
        )
        try:
            yield printed
        finally:
            program.send_signal(signal.SIGTERM)
            program.wait(60)


@pytest.mark.skipif("MITA_SOAK" not in os.environ, reason="part of make soak")
def test_it_runs_on_postgresql(tmp_path: Path, database: str) -> None:
    shutil.copy(EXAMPLE / "service.py", tmp_path)
    app = Mita(database)
    with (
        running(tmp_path, database, "-m", "uvicorn", "service:web", "--port", "0") as web,
        running(tmp_path, database, "-m", "mita", "worker", "service:app"),
    ):
        found = wait_until(lambda: re.search(r"http://[\d.]+:\d+", web.read_text()))
        with httpx.Client(base_url=found[0], timeout=60) as client:
            placed = client.post("/orders", json={"customer": "Ada", "articles": ["tea", "cake"]})
            assert placed.status_code == 201, placed.text
            undone = client.post("/orders", json={"customer": "Bo", "articles": ["tea", "jam"]})
            assert (undone.status_code, undone.json()) == (409, {"detail": "jam is sold out"})
            number, job = placed.json()["number"], placed.json()["job"]
            wait_until(lambda: client.get(f"/orders/{number}").json()["cents"] == 750)
        result = app.result_sync(job, timeout=60)
        assert result == {"number": number, "customer": "Ada", "cents": 750}
        assert [each.id for each in app.jobs_sync(limit=10).jobs] == [job], "no job of the other"
    app.close_sync()
    assert "Traceback" not in web.read_text()
