"""Tables, colours and progress, with a terminal and without."""

import os
import pty
import shlex
import subprocess
import sys
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from io import StringIO
from pathlib import Path

import pytest

from mita.cli.argtypes import duration
from mita.cli.progress import ProgressBar
from mita.cli.screen import Screen
from mita.cli.table import Column, Table, draw, fitted
from mita.rules.words import relative

from .conftest import Run

NOW = datetime(2030, 1, 1, tzinfo=UTC)


def lines(table: Table, width: int | None = None) -> list[str]:
    out = StringIO()
    draw(table, out, width, colours=False)
    return out.getvalue().splitlines()


def test_columns_are_aligned() -> None:
    table = Table(
        ("name", Column("jobs", right=True), "note"), [("a", 1200, "x"), ("longer", 3, "")]
    )
    assert lines(table) == ["NAME     JOBS  NOTE", "a       1,200  x", "longer      3"]


def test_a_narrow_terminal_cuts_only_columns_with_a_drop_order() -> None:
    table = Table(
        ("id", Column("queue", drop_order=2), Column("note", drop_order=1)),
        [("0" * 32, "a" * 12, "b" * 40)],
    )
    assert fitted(table, None) == [32, 12, 40]
    assert fitted(table, 86) == [32, 10, 40]
    assert fitted(table, 80) == [32, 0, 40]
    assert fitted(table, 60) == [32, 0, 26]
    assert lines(table, 60)[1] == f"{'0' * 32}  {'b' * 25}…"
    assert fitted(table, 20) == [32, 0, 0]


def test_a_cell_is_one_line() -> None:
    assert lines(Table(("note",), [("two\nlines\x07",)])) == ["NOTE", "two lines\\x07"]


@pytest.mark.parametrize(
    ("seconds", "words"),
    [
        (-0.2, "200 ms ago"),
        (-7300, "2 h 1 m ago"),
        (0, "0 ms ago"),
        (4.2, "in 4.2 s"),
        (12.7, "in 12 s"),
        (299, "in 4 m 59 s"),
        (3599, "in 59 m"),
        (7199, "in 1 h 59 m"),
        (86399, "in 23 h"),
        (86400 * 3, "in 3 d"),
    ],
)
def test_times_are_relative(seconds: float, words: str) -> None:
    assert relative(NOW + timedelta(seconds=seconds), NOW) == words


@pytest.mark.parametrize(
    ("text", "seconds"), [("0", 0), ("1.5", 1.5), ("250ms", 0.25), ("1h30m", 5400), ("1 d", 86400)]
)
def test_durations_have_units(text: str, seconds: float) -> None:
    assert duration(text) == seconds


def test_progress_without_a_terminal_is_plain_lines_on_stderr() -> None:
    out, err = StringIO(), StringIO()
    with ProgressBar(Screen(out=out, err=err), "retrying", 3) as progress:
        for _ in range(3):
            progress.advance(1)
    assert (out.getvalue(), err.getvalue()) == ("", "retrying: 3 of 3\n")


class Terminal(StringIO):
    def isatty(self) -> bool:
        return True


@pytest.mark.parametrize("colours", [True, False])
def test_progress_on_a_terminal_is_a_bar(monkeypatch: pytest.MonkeyPatch, colours: bool) -> None:
    monkeypatch.setenv("TERM", "xterm" if colours else "dumb")
    err = Terminal()
    with ProgressBar(Screen(out=Terminal(), err=err), "retrying", 3) as progress:
        progress.advance(3)
    assert "3" in err.getvalue()
    assert ("\x1b" in err.getvalue()) is colours


MITA = (sys.executable, "-m", "mita")


def on_a_terminal(*arguments: str, **environment: str) -> str:
    """What `mita` prints when its stdout is a terminal."""
    ours, theirs = pty.openpty()
    env = {**os.environ, "TERM": "xterm", "COLUMNS": "80", **environment}
    child = subprocess.Popen([*MITA, *arguments], stdout=theirs, stderr=theirs, env=env)
    os.close(theirs)
    written = b""
    while True:
        try:
            some = os.read(ours, 65536)
        except OSError:  # Linux raises this when the other side is closed
            break
        if not some:
            break
        written += some
    os.close(ours)
    assert child.wait(60) == 0
    return written.decode()


@pytest.mark.parametrize("environment", [{"NO_COLOR": "1"}, {"TERM": "dumb"}])
def test_colours_are_used_only_on_terminals_that_support_them(
    project: Path, enqueue: Callable[..., str], shell: Run, environment: dict[str, str]
) -> None:
    id = enqueue("greet", "Ada")
    assert "\x1b[" in on_a_terminal("jobs")
    assert "\x1b" not in on_a_terminal("jobs", **environment)
    assert id[:12] in on_a_terminal("jobs", **environment)
    assert "\x1b" not in shell("jobs").out


def test_json_is_never_coloured(project: Path, enqueue: Callable[..., str]) -> None:
    enqueue("greet", "Ada")
    assert "\x1b" not in on_a_terminal("jobs", "--json")


def test_tables_have_colours_without_the_rich_package(
    project: Path, enqueue: Callable[..., str]
) -> None:
    (project / "rich.py").write_text("raise ImportError('not installed')")
    id = enqueue("greet", "Ada")
    written = on_a_terminal("jobs", PYTHONPATH=str(project))
    assert id[:12] in written
    assert "\x1b[36mready\x1b[0m" in written


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="a device that is always full is needed")
def test_output_that_cannot_be_written_is_an_error_of_one_line(
    project: Path, enqueue: Callable[..., str]
) -> None:
    enqueue("greet", "Ada")
    with Path("/dev/full").open("w") as full:
        said = subprocess.run(
            [*MITA, "jobs"], stdout=full, stderr=subprocess.PIPE, text=True, check=False
        )
    assert said.returncode == 1
    assert said.stderr.startswith("mita: the output could not be written: No space left on device.")
    assert said.stderr.count("\n") == 1


def test_a_command_works_with_closed_streams(project: Path, enqueue: Callable[..., str]) -> None:
    """As in a daemon."""
    enqueue("greet", "Ada")
    program = " ".join(shlex.quote(part) for part in MITA)
    assert subprocess.run(["sh", "-c", f"{program} jobs >&- 2>&-"], check=False).returncode == 0
    assert subprocess.run(["sh", "-c", f"{program} nonsense >&- 2>&-"], check=False).returncode == 2
