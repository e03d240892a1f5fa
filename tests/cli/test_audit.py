"""`mita audit`, and what the other commands write into the log."""

from pathlib import Path
from typing import Any

import pytest

from mita import Every, Mita

from .conftest import Run


@pytest.fixture(autouse=True)
def ada(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MITA_WHO", "ada")
    monkeypatch.setenv("MITA_APP", "shop:app")


def entries(mita: Run, *words: str) -> list[dict[str, Any]]:
    """The log, oldest first."""
    found: list[dict[str, Any]] = mita("audit", "--json", "--limit", "1000", *words).data["entries"]
    return found[::-1]


def enqueued(mita: Run, *words: str) -> str:
    return str(mita("enqueue", "greet", "bob", *words, "--json").data["id"])


def test_a_change_is_recorded_and_shown(mita: Run) -> None:
    mita("migrate")
    assert mita("audit").out == "nothing was changed by hand so far\n"
    mita("pause", "mail", "--reason", "the mail server is down")
    header, line = mita("audit").out.splitlines()
    assert header.split()[:4] == ["TIME", "(UTC)", "WHO", "VIA"]
    assert header.split()[4:] == ["WHAT", "TARGET", "JOBS", "RESULT", "WHY"]
    assert line.endswith("ada  cli  pause  queue mail        done    the mail server is down")


COMMANDS: list[tuple[str, str]] = [
    ("pause mail", "pause queue mail"),
    ("resume mail", "resume queue mail"),
    ("hold gpu --after 10m", "hold key gpu of all queues"),
    ("unhold gpu --queue mail", "unhold key gpu of queue mail"),
    ("limit queue mail --concurrency 3", "limit queue mail"),
    ("limit key gpu --rate 5/s", "limit key gpu of all queues"),
    ("enqueue greet bob", "enqueue task greet"),
    ("reschedule {id} --after 10m", "reschedule job {id}"),
    ("signal {id} approved 1", "signal job {id}"),
    ("amend {id} name=eve", "amend job {id}"),
    ("cancel {id}", "cancel job {id}"),
    ("cancel --queue default --yes", "cancel jobs: queue=default"),
    ("reschedule --all --after 1m --yes", "reschedule jobs: all"),
    ("retry --all --yes", "retry jobs: state=failed"),
    ("delete --all --yes", "delete jobs: all"),
    ("repeats add other greet bob --every 1m", "repeat repeat other"),
    ("repeats pause nightly", "pause repeat nightly"),
    ("repeats resume nightly", "resume repeat nightly"),
    ("repeats trigger nightly", "trigger repeat nightly"),
    ("repeats backfill nightly --from 2024-01-01T00:00 --to 2024-01-01T00:05", "backfill repeat"),
    ("repeats rm nightly", "remove repeat nightly"),
]


def test_every_changing_command_is_recorded(mita: Run) -> None:
    id = str(mita("enqueue", "greet", "bob", "--json", "--queue", "news").data["id"])
    mita("repeats", "add", "nightly", "greet", "bob", "--every", "1m")
    before = len(entries(mita))
    for number, (command, recorded) in enumerate(COMMANDS, 1):
        mita(*command.format(id=id).split(), "--reason", "a test")
        *_, line = found = entries(mita)
        assert len(found) == before + number, command
        assert f"{line['what']} {line['target']}".startswith(recorded.format(id=id)), command
        assert (line["who"], line["via"], line["why"]) == ("ada", "cli", "a test"), command


READING = [
    *("queues", "jobs", "show {id}", "why {id}", "workers", "keys", "repeats", "flows", "audit"),
    *("doctor", "cancel --all --dry-run", "retry --all --dry-run", "top --once"),
    "repeats backfill nightly --from 2024-01-01T00:00 --to 2024-01-01T00:05 --dry-run",
]


def test_reading_is_not_recorded(mita: Run) -> None:
    id = enqueued(mita)
    mita("repeats", "add", "nightly", "greet", "bob", "--every", "1m")
    before = entries(mita)
    for command in READING:
        mita(*command.format(id=id).split())
    assert entries(mita) == before


def test_a_refused_change_is_recorded(mita: Run) -> None:
    enqueued(mita)
    assert mita("cancel", "--all").code
    assert mita("hold", "", "--after", "1m").code
    refused = [line["result"] for line in entries(mita)[1:]]
    assert len(refused) == 2
    assert refused[0].startswith("refused: 1 job matches, and there is no terminal to ask")
    assert refused[1].startswith("refused: resource key '' is not usable")


def test_the_reason_is_stored_once(mita: Run) -> None:
    """In the timeline with the name of the user, in the log without: it has the name already."""
    id = enqueued(mita)
    mita("cancel", id, "--reason", "the customer asked")
    mita("retry", id)
    cancel, retry = entries(mita)[1:]
    assert (cancel["why"], retry["why"]) == ("the customer asked", "")
    notes = [line["note"] for line in mita("show", id, "--json").data["job"]["timeline"]]
    assert any(note.startswith("the customer asked; by ada on ") for note in notes)


def test_without_the_variable_the_user_of_the_system_acts(
    mita: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MITA_WHO", " ")
    monkeypatch.setattr("getpass.getuser", lambda: "carol")
    mita("migrate")
    mita("pause", "mail")
    assert [line["who"] for line in entries(mita)] == ["carol"]


def test_a_user_without_a_name(mita: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    def nameless() -> str:
        raise KeyError("uid not found")

    monkeypatch.delenv("MITA_WHO")
    monkeypatch.setattr("getpass.getuser", nameless)
    mita("migrate")
    mita("pause", "mail")
    [line] = entries(mita)
    assert line["who"].startswith("user")


def test_filters_and_pages(mita: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    mita("migrate")
    mita("pause", "mail")
    monkeypatch.setenv("MITA_WHO", "bob")
    mita("resume", "mail")
    mita("pause", "news")
    assert len(entries(mita, "--who", "bob")) == 2
    assert [line["target"] for line in entries(mita, "--what", "pause")] == [
        "queue mail",
        "queue news",
    ]
    assert [line["what"] for line in entries(mita, "--target", "mail")] == ["pause", "resume"]
    assert mita("audit", "--who", "eve").out == "no lines match\n"
    first = mita("audit", "--limit", "2").out
    assert "more: add --after " in first
    rest = mita("audit", "--limit", "2", "--after", first.rsplit(None, 1)[-1]).out
    assert "ada" in rest
    assert "more:" not in rest


def test_text_in_the_log_cannot_control_a_terminal(mita: Run) -> None:
    mita("migrate")
    mita("pause", "mail", "--reason", "red \x1b[31m and\nmore")
    assert "\x1b" not in mita("audit").out
    assert len(mita("audit").out.splitlines()) == 2


def test_a_program_and_a_command_share_the_log(mita: Run, project: Path) -> None:
    app = Mita(f"sqlite:///{project}/jobs.db")

    @app.task
    async def greet(name: str) -> None: ...

    with app.acting("cleaner", via="web"):
        app.repeats.put_sync("nightly", greet.call("bob"), Every(60))
    app.close_sync()
    [line] = entries(mita)
    assert (line["who"], line["via"], line["what"]) == ("cleaner", "web", "repeat")


def test_wrong_options_are_refused(mita: Run) -> None:
    mita("migrate")
    assert mita("audit", "--limit", "0").code
    assert mita("audit", "--after", "x y").code
    assert mita("audit", "--what", "x" * 10_000).out == "no lines match\n"
