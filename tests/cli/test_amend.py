"""`reschedule`, `cancel`, `retry` and `delete`: one job, several, or all that match."""

import re
from collections.abc import Callable
from io import StringIO

import pytest

from .conftest import Run

Put = Callable[..., str]
Work = Callable[[], None]


def state(mita: Run, id: str) -> str:
    return str(mita("show", id, "--json").data["job"]["state"])


@pytest.fixture
def dead(mita: Run, enqueue: Put, work_off: Work) -> list[str]:
    """Three failed jobs, of two accounts."""
    ids = [enqueue("charge", account, "-5") for account in "112"]
    work_off()
    return ids


def test_reschedule_changes_the_due_time_of_jobs(mita: Run, enqueue: Put) -> None:
    ids = [enqueue("greet", name) for name in ("Ada", "Bo")]
    said = mita("reschedule", *ids, "--after", "2d")
    assert (said.code, said.out.splitlines()) == (0, [f"{id}  rescheduled" for id in ids])
    job = mita("show", ids[0], "--json").data["job"]
    assert (job["state"], job["reschedules"], job["attempts"]) == ("scheduled", 1, 0)
    mita("reschedule", ids[0], "--at", "2040-01-01T00:00:00Z")
    assert mita("show", ids[0], "--json").data["job"]["due"] == "2040-01-01T00:00:00Z"


def test_the_timeline_has_the_user_and_the_reason(
    mita: Run, enqueue: Put, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("getpass.getuser", lambda: "ada")
    id = enqueue("greet", "Ada")
    mita("reschedule", id, "--after", "2d")
    assert re.search(r"rescheduled from outside \(by ada on \S+\)", mita("why", id).out)
    mita("reschedule", id, "--after", "2d", "--reason", "the partner is closed")
    assert "rescheduled from outside (the partner is closed; by ada on " in mita("why", id).out

    def nameless() -> str:
        raise OSError("no such user")

    monkeypatch.setattr("getpass.getuser", nameless)
    mita("cancel", id)
    assert re.search(r"it was cancelled .* \(by user \d+ on \S+\)", mita("why", id).out)


def test_reschedule_needs_a_time(mita: Run, enqueue: Put) -> None:
    said = mita("reschedule", enqueue("greet", "Ada"))
    assert (said.code, "--at --after is required" in said.err) == (2, True)


def test_cancel_ends_a_job_with_its_reason(mita: Run, enqueue: Put) -> None:
    id = enqueue("greet", "Ada")
    said = mita("cancel", id, "--reason", "not needed")
    assert (said.code, said.out) == (0, f"{id}  cancelled\n")
    assert "not cancelled: it is already cancelled; only" in mita("cancel", id).out
    assert state(mita, id) == "cancelled"
    assert "not needed" in mita("show", id).out


LIVE = "only waiting and running jobs can be cancelled"


def test_a_change_that_comes_too_late_has_exit_code_1(
    mita: Run, enqueue: Put, work_off: Work
) -> None:
    id = enqueue("greet", "Ada")
    work_off()
    said = mita("cancel", id)
    assert (said.code, said.out) == (1, f"{id}  not cancelled: it is succeeded; {LIVE}\n")
    assert mita("cancel", id, "--json").data == {"answers": [{"id": id, "answer": "too late"}]}


def test_an_unknown_id_does_not_stop_the_others(mita: Run, enqueue: Put) -> None:
    id = enqueue("greet", "Ada")
    said = mita("cancel", "0" * 32, id)
    assert said.code == 1
    assert "not found" in said.out
    assert state(mita, id) == "cancelled"


def test_retry_runs_a_failed_job_again(mita: Run, dead: list[str]) -> None:
    said = mita("retry", dead[0])
    assert (said.code, said.out) == (0, f"{dead[0]}  queued again\n")
    job = mita("show", dead[0], "--json").data["job"]
    assert (job["state"], job["attempts"]) == ("ready", 0)


def test_retry_takes_a_time(mita: Run, dead: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("getpass.getuser", lambda: "ada")
    said = mita("retry", dead[0], "--after", "10m", "--reason", "the bank is closed")
    assert (said.code, said.out) == (0, f"{dead[0]}  queued again\n")
    job = mita("show", dead[0], "--json").data["job"]
    assert (job["state"], job["attempts"], job["error"]) == ("scheduled", 0, None)
    assert job["timeline"][-1]["note"].startswith("the bank is closed; by ada on ")
    assert mita("retry", dead[1], "--at", "2040-01-01T00:00:00Z").code == 0
    assert mita("show", dead[1], "--json").data["job"]["due"] == "2040-01-01T00:00:00Z"
    assert mita("retry", "--all", "--yes", "--after", "1h").out == "1 job queued again\n"
    assert state(mita, dead[2]) == "scheduled"


def test_reschedule_runs_a_failed_job_again_at_a_time(
    mita: Run, dead: list[str], enqueue: Put
) -> None:
    said = mita("reschedule", dead[0], "--after", "10m")
    assert (said.code, said.out) == (0, f"{dead[0]}  rescheduled\n")
    assert state(mita, dead[0]) == "scheduled"
    enqueue("greet", "Ada")
    assert mita("reschedule", "--all", "--yes", "--after", "1h").out == "2 jobs rescheduled\n", (
        "jobs that do not match stay failed"
    )
    assert state(mita, dead[1]) == "failed"
    assert (
        mita("reschedule", "--state", "failed", "--all", "--yes", "--after", "1h").out
        == "2 jobs rescheduled\n"
    )


def test_retry_all_counts_first(mita: Run, dead: list[str]) -> None:
    said = mita("retry", "--all", "--dry-run")
    assert (said.code, said.out) == (0, "3 jobs match\n")
    assert mita("retry", "--all", "--dry-run", "--json").data == {
        "matched": 3,
        "answers": {},
        "dry_run": True,
    }
    assert [state(mita, id) for id in dead] == ["failed"] * 3


def test_retry_all_needs_confirmation(mita: Run, dead: list[str]) -> None:
    said = mita("retry", "--all")
    assert said.code == 2
    assert "3 jobs match, and there is no terminal to ask for confirmation: pass --yes" in said.err
    assert [state(mita, id) for id in dead] == ["failed"] * 3


@pytest.mark.parametrize(
    ("answer", "code", "became"), [("y\n", 0, "ready"), ("\n", 1, "failed"), ("no\n", 1, "failed")]
)
def test_on_a_terminal_the_user_is_asked_to_confirm(
    mita: Run, dead: list[str], monkeypatch: pytest.MonkeyPatch, answer: str, code: int, became: str
) -> None:
    monkeypatch.setattr("mita.cli.screen.Screen.can_ask", True)
    monkeypatch.setattr("sys.stdin", StringIO(answer))
    said = mita("retry", "--all")
    assert "3 jobs match. Retry them? [y/N]" in said.err
    assert said.code == code
    assert {state(mita, id) for id in dead} == {became}


def test_retry_all_takes_filters(mita: Run, dead: list[str]) -> None:
    said = mita("retry", "--all", "--resource", "account:1", "--error", "less than", "--yes")
    assert (said.code, said.out) == (0, "2 jobs queued again\n")
    assert "retrying: 2 of 2" in said.err
    assert [state(mita, id) for id in dead] == ["ready", "ready", "failed"]


def test_retry_all_as_json_is_one_document(mita: Run, dead: list[str]) -> None:
    said = mita("retry", "--all", "--yes", "--json")
    assert said.data == {"matched": 3, "answers": {"done": 3}, "dry_run": False}
    assert said.err == ""


def test_retry_all_without_a_match_changes_nothing(mita: Run) -> None:
    mita("migrate")
    assert mita("retry", "--all").out == "0 jobs match\n"


@pytest.mark.parametrize(
    "words",
    [
        ["--all", "0" * 32],
        ["--queue", "mail", "0" * 32],
        ["--dry-run", "0" * 32],
        ["--dry-run"],
        ["--yes"],
        [],
    ],
)
@pytest.mark.parametrize(
    "command", [["retry"], ["cancel"], ["delete"], ["reschedule", "--after", "5"]]
)
def test_jobs_are_chosen_by_id_or_by_filter_but_not_by_both_nor_neither(
    mita: Run, command: list[str], words: list[str]
) -> None:
    mita("migrate")
    said = mita(*command, *words)
    assert said.code == 2
    assert "by id" in said.err


def test_all_jobs_that_match_are_cancelled(mita: Run, enqueue: Put) -> None:
    ids = [enqueue("greet", "Ada") for _ in range(3)]
    kept = enqueue("greet", "Bo", "--queue", "kept")
    queue = mita("show", ids[0], "--json").data["job"]["queue"]
    said = mita("cancel", "--queue", queue, "--state", "ready", "--dry-run")
    assert (said.code, said.out) == (0, "3 jobs match\n")
    assert {state(mita, id) for id in ids} == {"ready"}
    assert mita("cancel", "--queue", queue).code == 2
    said = mita("cancel", "--queue", queue, "--yes", "--reason", "too many")
    assert (said.code, said.out) == (0, "3 jobs cancelled\n")
    assert "cancelling: 3 of 3" in said.err
    assert {state(mita, id) for id in ids} == {"cancelled"}
    assert state(mita, kept) == "ready"
    assert "too many; by" in mita("show", ids[0]).out


def test_all_jobs_that_match_are_rescheduled(mita: Run, enqueue: Put) -> None:
    ids = [enqueue("greet", "Ada") for _ in range(2)]
    said = mita("reschedule", "--task", "greet", "--after", "1h", "--yes", "--json")
    assert said.data == {"matched": 2, "answers": {"done": 2}, "dry_run": False}
    assert {state(mita, id) for id in ids} == {"scheduled"}


def test_jobs_that_have_ended_are_deleted_by_id_and_by_filter(
    mita: Run, enqueue: Put, dead: list[str]
) -> None:
    waits = enqueue("greet", "Ada", "--after", "1h")
    said = mita("delete", dead[0])
    assert (said.code, said.out) == (0, f"{dead[0]}  deleted\n")
    assert mita("show", dead[0]).code == 1
    said = mita("delete", waits)
    assert said.code == 1
    assert "not deleted: it is scheduled; only jobs that have ended can be deleted" in said.out
    said = mita("delete", "--all", "--yes")
    assert (said.code, said.out) == (0, "2 jobs deleted\n")
    assert mita("jobs", "--json").data["jobs"][0]["id"] == waits


def test_the_user_is_asked_before_jobs_are_deleted(
    mita: Run, dead: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("mita.cli.screen.Screen.can_ask", True)
    monkeypatch.setattr("sys.stdin", StringIO("n\n"))
    said = mita("delete", "--state", "failed")
    assert "3 jobs match. Delete them? [y/N]" in said.err
    assert said.code == 1
    assert {state(mita, id) for id in dead} == {"failed"}
