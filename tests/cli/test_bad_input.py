"""Errors say what is wrong and how to fix it, with an exit code; with `--json` as JSON."""

import os
import sqlite3
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from .conftest import Run


@pytest.mark.parametrize(
    ("words", "complaint"),
    [
        ([], "the following arguments are required: COMMAND"),
        (["nosuch"], "invalid choice: 'nosuch'"),
        (["jbos"], "did you mean 'jobs'?"),
        (["beat"], "did you mean 'scheduler'?"),
        (["repeats", "trigegr"], "did you mean 'trigger'?"),
        (["jobs", "--state", "faild"], "did you mean 'failed'?"),
        (["jobs", "--nosuch"], "unknown argument '--nosuch'"),
        (["jobs", "--quue=mail"], "did you mean '--queue'?"),
        (["jobs", "more"], "unknown argument 'more'"),
        (["jobs", "--state", "lost"], "invalid choice: 'lost'"),
        (["jobs", "--limit", "0"], "1 or more"),
        (["jobs", "--limit", "5000"], "a page has 1 to 1000 jobs"),
        (["jobs", "--url", "mysql://here"], "unknown scheme 'mysql'"),
        (["jobs", "--url", "jobs.db"], "is not a store URL"),
        (["jobs", "--url", "sqlite://"], "names no file"),
        (["jobs", "--url", "sqlite:///missing/jobs.db"], "/missing does not exist"),
        (["jobs", "--namespace", "Odd Name"], "namespace 'Odd Name' is not usable"),
        (["jobs", "--app", "nosuch:app"], "there is no module 'nosuch'"),
        (["jobs", "--app", "shop.deeper:app"], "there is no module 'shop.deeper'"),
        (["jobs", "--app", "shop.py:app"], "not its file: shop:app"),
        (["jobs", "--app", "./a b:app"], "cannot import"),
        (["jobs", "--app", "shop:nosuch"], "did you mean shop:app or shop:other?"),
        (["jobs", "--app", "shop:number"], "it is a int, not a Mita app"),
        (["demo", "--url", "sqlite:///mine.db"], "the demo runs on a file of its own"),
        (["worker", "nosuch:app"], "there is no module 'nosuch'"),
        (["worker", "shop:other"], "shop:other has no tasks"),
        (["worker", "shop:app", "--processes", "0"], "1 or more"),
        (["worker", "shop:app", "--lease", "0.01"], "lease=0.01"),
        (["worker", "shop:app", "--queues", "a,,b"], "queue '' is not a usable name"),
        (["worker", "shop:app", "--name", "odd name"], "worker 'odd name'"),
    ],
)
def test_wrong_use_has_exit_code_2(mita: Run, words: list[str], complaint: str) -> None:
    mita("migrate")
    said = mita(*words)
    assert (said.code, said.out) == (2, "")
    assert complaint in said.err
    as_json = mita(*words, "--json")
    assert as_json.code == 2
    assert as_json.data["kind"] == "usage"
    assert complaint in as_json.data["error"]


def test_a_module_that_fails_says_where_and_why(mita: Run, project: Path) -> None:
    (project / "broken.py").write_text("from mita import Mita\n\nimport nosuchpackage\n")
    (project / "wrong.py").write_text("from mita import Mita\napp = Mita('mysql://x')\n")
    broken = mita("jobs", "--app", "broken:app")
    assert broken.code == 2
    assert "broken.py, line 3: ModuleNotFoundError: No module named 'nosuchpackage'" in broken.err
    wrong = mita("jobs", "--app", "wrong:app")
    assert (wrong.code, "wrong.py, line 2: store URL 'mysql://x': unknown scheme" in wrong.err) == (
        2,
        True,
    )


@pytest.mark.parametrize(
    ("wrong", "says"),
    [
        (["--queue", "a b"], "queue 'a b' is not a usable name"),
        (["--task", ""], "task '' is not a usable name"),
        (["--state", "done"], "argument --state: invalid choice: 'done'"),
        (["--resource", ""], "resource key '' is not usable"),
        (["--error", ""], "error=''"),
        (["--after", "the end"], "after='the end' is not the end of a page"),
        (["--limit", "0"], "argument --limit: '0'"),
        (["--colour", "red"], "unknown argument '--colour'"),
    ],
)
def test_a_malformed_filter_says_where(mita: Run, wrong: list[str], says: str) -> None:
    mita("migrate")
    said = mita("jobs", *wrong)
    assert said.code == 2
    assert says in said.err
    assert mita("jobs", *wrong, "--json").data["kind"] == "usage"


@pytest.mark.parametrize("command", ["why", "show"])
def test_a_job_that_is_not_there_has_exit_code_1_and_one_that_cannot_be_has_2(
    mita: Run, command: str
) -> None:
    mita("migrate")
    for id in ("0" * 32, "abc", "greet"):
        said = mita(command, id)
        assert (said.code, said.out) == (1, "")
        assert f"no job {id} is in the store: it never was, or it ended and was deleted" in said.err
        assert mita(command, id, "--json").data["kind"] == "failed"
    said = mita(command, "greet!")
    assert said.code == 2
    assert "'greet!' is not a job id" in said.err


def test_read_commands_create_no_store(mita: Run, project: Path) -> None:
    for command in (["jobs"], ["queues"], ["doctor"], ["cancel", "0" * 32], ["pause", "mail"]):
        said = mita(*command)
        assert said.code == 3
        assert f"there is no file {project / 'jobs.db'}" in said.err
    assert mita("jobs", "--json").data["kind"] == "store"
    assert not (project / "jobs.db").exists()


@contextmanager
def not_root() -> Iterator[None]:
    """Root may write everywhere, so the test runs as another user."""
    root = os.geteuid() == 0
    if root:
        os.setresuid(65534, 65534, 0)
    try:
        yield
    finally:
        if root:
            os.setresuid(0, 0, 0)


def test_a_folder_or_file_without_permission_has_exit_code_2(mita: Run) -> None:
    mita("migrate")
    with tempfile.TemporaryDirectory() as folder:
        (Path(folder) / "there.db").touch(mode=0o400)
        Path(folder).chmod(0o555)
        with not_root():
            for file in ("new.db", "there.db"):
                said = mita("migrate", "--url", f"sqlite:///{folder}/{file}")
                assert (said.code, "this user may not write there" in said.err) == (2, True)
        Path(folder).chmod(0o700)


def test_a_file_that_is_not_a_database_is_an_error(mita: Run, project: Path) -> None:
    (project / "jobs.db").write_text("not a database at all" * 100)
    said = mita("jobs")
    assert (said.code, "is not an SQLite database" in said.err) == (2, True)


def test_a_database_of_a_newer_schema_is_refused(mita: Run, project: Path) -> None:
    mita("migrate")
    with sqlite3.connect(project / "jobs.db") as connection:
        connection.execute("update _mita_meta set value = '999' where name = 'schema'")
    connection.close()
    said = mita("jobs")
    assert (said.code, "schema 999" in said.err) == (2, True)


def test_a_store_that_cannot_answer_has_exit_code_3(mita: Run, project: Path) -> None:
    mita("migrate")
    with sqlite3.connect(project / "jobs.db") as connection:
        connection.execute("drop table _mita_queue")
    connection.close()
    assert mita("queues").code == 3


def test_the_store_can_be_named_before_or_after_the_command(mita: Run) -> None:
    mita("migrate", "--url", "sqlite:///elsewhere.db")
    assert mita("--url", "sqlite:///elsewhere.db", "jobs").code == 0
    assert mita("jobs", "--url", "sqlite:///elsewhere.db").code == 0
    assert mita("--json", "jobs", "--url", "sqlite:///elsewhere.db").data == {
        "jobs": [],
        "after": None,
    }


def test_an_app_is_used_on_another_store_and_namespace(mita: Run, project: Path) -> None:
    place = ["--url", "sqlite:///elsewhere.db", "--namespace", "shop"]
    mita("enqueue", "greet", "Ada", "--app", "shop:app", *place)
    assert len(mita("jobs", "--json", *place).data["jobs"]) == 1
    assert (
        mita("jobs", "--json", "--url", "sqlite:///elsewhere.db?namespace=shop").data["jobs"] != []
    )
    assert "there are: shop" in mita("jobs", "--url", "sqlite:///elsewhere.db").err
    assert not (project / "jobs.db").exists()


def test_help_lists_the_exit_codes(shell: Run) -> None:
    for words in (["--help"], ["retry", "--help"]):
        said = shell(*words)
        assert said.code == 0
        assert "exit codes:" in said.out
        assert "3    the store is unreachable" in said.out


def test_version_prints_the_version(shell: Run) -> None:
    assert shell("--version").out.startswith("mita ")


def test_an_interrupt_has_exit_code_130(mita: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    mita("migrate")
    monkeypatch.setattr("mita.cli.context.open_app", interrupted)
    assert mita("jobs").code == 130
    assert mita("jobs", "--json").data == {"error": "interrupted", "kind": "interrupted"}


def test_a_closed_output_pipe_is_no_failure(mita: Run) -> None:
    mita("migrate")
    reads, writes = os.pipe()
    os.close(reads)
    done = subprocess.run(
        [sys.executable, "-m", "mita", "jobs"],
        check=False,
        stdout=writes,
        stderr=subprocess.PIPE,
        timeout=60,
    )
    os.close(writes)
    assert (done.returncode, done.stderr) == (0, b"")
