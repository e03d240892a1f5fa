"""examples/django_shop, as its README says: migrate, a worker, a server, requests."""

import json
import re
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from urllib.error import URLError
from urllib.parse import urlencode
from urllib.request import urlopen

import pytest

from tests.waiting import wait_until

from .projects import HAS_TASKS, environment

SHOP = Path(__file__).parents[3] / "examples" / "django_shop"
pytestmark = pytest.mark.skipif(not HAS_TASKS, reason="the shop needs Django 6")


def _command(*words: str) -> list[str]:
    return [sys.executable, "-W", "ignore", str(SHOP / "manage.py"), *words]


def _manage(folder: Path, *words: str) -> str:
    ran = subprocess.run(
        _command(*words),
        env=environment(folder),
        cwd=SHOP,
        capture_output=True,
        text=True,
        timeout=100,
        check=False,
    )
    assert ran.returncode == 0, ran.stdout + ran.stderr
    return ran.stdout + ran.stderr if words[0] == "test" else ran.stdout


@contextmanager
def _running(folder: Path, *words: str) -> Iterator[subprocess.Popen[bytes]]:
    with (folder / f"{words[0]}.log").open("wb") as log:
        process = subprocess.Popen(
            _command(*words), env=environment(folder), cwd=SHOP, stdout=log, stderr=log
        )
        try:
            yield process
        finally:
            process.terminate()
            process.wait(60)


def _free_port() -> int:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        return int(taken.getsockname()[1])


def _ask(url: str, **form: str) -> dict[str, object]:
    data = urlencode(form).encode() if form else None
    with urlopen(url, data, timeout=30) as answer:
        found: dict[str, object] = json.load(answer)
        return found


def _serves(url: str) -> bool:
    try:
        _ask(url)
    except URLError as error:
        return hasattr(error, "code")  # it answers, with an error
    return True


def test_an_order_is_invoiced_and_mailed(tmp_path: Path) -> None:
    _manage(tmp_path, "migrate")
    port = _free_port()
    url = f"http://127.0.0.1:{port}"
    with (
        _running(tmp_path, "mita", "worker"),
        _running(tmp_path, "runserver", "--noreload", str(port)),
    ):
        wait_until(lambda: _serves(f"{url}/orders/1/"), "the server answers")
        placed = _ask(f"{url}/orders/", customer="ada@example.com", item="tea", cents="450")
        order = f"{url}/orders/{placed['order']}/"
        wait_until(lambda: _ask(order)["mailed"], "the invoice is mailed")
        shown = _ask(f"{url}/tasks/{placed['task']}/")
    assert shown == {"status": "SUCCESSFUL", "attempts": 1}
    [mail] = (tmp_path / "mails").iterdir()
    assert "To: ada@example.com" in mail.read_text()
    assert "tea: 4.50" in (tmp_path / "files" / "invoice-1.txt").read_text()


def test_its_own_tests_pass(tmp_path: Path) -> None:
    assert "\nOK" in _manage(tmp_path, "test")
    assert not (tmp_path / "mita.db").exists(), "tests do not touch the jobs of the shop"


def test_it_needs_at_most_ten_lines_of_glue() -> None:
    marked = [
        line
        for file in SHOP.rglob("*.py")
        for line in file.read_text().splitlines()
        if line.endswith("# mita")
    ]
    unmarked = [
        f"{file.name}: {line}"
        for file in SHOP.rglob("*.py")
        for line in file.read_text().splitlines()
        if re.search(r"\b(mita|Mita)\b|@app\.", line.partition("# mita")[0])
        and not line.endswith("# mita")
        and file.name != "tests.py"
        and "lines for Mita are marked" not in line
    ]
    assert len(marked) <= 10
    assert unmarked == [], "each line that knows of Mita is marked"
