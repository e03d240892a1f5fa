"""The checker reports each invariant that is broken on purpose in an invented history."""

from collections.abc import Callable

import msgspec
import pytest

from mita.model.job import Job, State

from .checker import INVARIANTS, Acked, Expect, Fault, History, check
from .record import Line

NOW = 1_700_000_000.0


def job(id: str, **changes: object) -> Job:
    made = Job(
        id=id,
        task="nap",
        queue="default",
        state=State.SUCCEEDED,
        priority=5,
        due=0,
        created=0,
        payload=b"",
        token=1,
        result=msgspec.msgpack.encode(1),
    )
    return msgspec.structs.replace(made, **changes)


def line(what: str, n: int, mono: float, **more: object) -> Line:
    values = {
        "who": 1,
        "pid": 1,
        "wall": NOW + mono,
        "job": f"job-{n}",
        "token": 1,
        "how": "returned",
        **more,
    }
    return msgspec.convert({"what": what, "n": n, "mono": mono, **values}, Line)


def history() -> History:
    """Two jobs of one key, one after the other, and one that was run again because its process was
    killed."""
    return History(
        lines=[
            *[
                line("start", 1, 1.0, key="k"),
                line("effect", 1, 1.1, key="k"),
                line("end", 1, 1.2, key="k"),
            ],
            *[
                line("start", 2, 2.0, key="k"),
                line("effect", 2, 2.1, key="k"),
                line("end", 2, 2.2, key="k"),
            ],
            line("start", 3, 3.0, who=2),
            *[
                line("start", 3, 5.0, token=2),
                line("effect", 3, 5.1, token=2),
                line("end", 3, 5.2, token=2),
            ],
        ],
        jobs={
            "job-1": job("job-1"),
            "job-2": job("job-2"),
            "job-3": job("job-3", token=2, result=msgspec.msgpack.encode(2), crashes=1),
        },
        acked=[Acked(n, f"job-{n}", Expect(), NOW) for n in (1, 2, 3)],
        counted=3,
        faults=[Fault(2, "kill", 3.5, NOW + 3.5)],
        crashed={"job-3": [round((NOW + 4.5) * 1000)]},
        heal_within=2.0,
    )


def test_a_good_history_passes() -> None:
    report = check(history())
    assert report.violations == []
    assert (report.figures["runs"], report.figures["runs lost"], report.figures["lost"]) == (
        4,
        1,
        0,
    )
    assert report.healing == [pytest.approx(1.0)]


def forget_the_claim_of_job_3(made: History) -> None:
    """The server was killed just after the first claim of job 3, which was not on disk yet."""
    made.jobs["job-3"] = job("job-3", token=2, result=msgspec.msgpack.encode(2), crashes=0)
    made.lines = [
        msgspec.structs.replace(each, at=round(each.wall * 1000)) if each.n == 3 else each
        for each in made.lines
    ]
    made.server_kills, made.unsynced_claims_s = [NOW + 3.2], 0.6


def test_a_claim_that_a_killed_server_forgot_is_allowed() -> None:
    made = history()
    forget_the_claim_of_job_3(made)
    assert check(made).violations == []


def forget_a_job(made: History) -> None:
    del made.jobs["job-1"]
    made.counted = 2


def leave_a_job_running(made: History) -> None:
    made.jobs["job-1"] = job("job-1", state=State.RUNNING, result=None)


def run_what_was_never_enqueued(made: History) -> None:
    made.lines.append(line("start", 9, 9.0))


def keep_the_result_of_a_stale_run(made: History) -> None:
    made.jobs["job-3"] = job("job-3", token=2, result=msgspec.msgpack.encode(1), crashes=1)


def start_one_claim_twice(made: History) -> None:
    made.lines.append(line("start", 1, 1.5))


def succeed_without_a_return(made: History) -> None:
    made.lines = [each for each in made.lines if (each.what, each.n) != ("end", 1)]


def go_back_to_an_older_token(made: History) -> None:
    made.lines.append(line("start", 1, 0.5, token=7))


def run_again_with_no_lease_lost(made: History) -> None:
    made.jobs["job-3"] = job("job-3", token=2, result=msgspec.msgpack.encode(2), crashes=0)


def lose_a_claim_that_was_on_disk(made: History) -> None:
    run_again_with_no_lease_lost(made)
    made.server_kills, made.unsynced_claims_s = [NOW + 4.0], 0.6


def lose_a_claim_with_a_key(made: History) -> None:
    run_again_with_no_lease_lost(made)
    forget_the_claim_of_job_3(made)
    made.lines = [
        msgspec.structs.replace(each, key="other") if each.n == 3 else each for each in made.lines
    ]


def lose_two_claims_to_one_kill(made: History) -> None:
    run_again_with_no_lease_lost(made)
    forget_the_claim_of_job_3(made)
    made.lines.append(line("start", 3, 3.1, who=2, token=3, at=round((NOW + 3.1) * 1000)))


def lose_a_lease_in_a_sound_process(made: History) -> None:
    made.faults = [Fault(9, "kill", 3.5, NOW + 3.5)]


def lose_a_lease_with_nothing_broken(made: History) -> None:
    made.faults = []


def count_a_run_that_never_was(made: History) -> None:
    made.jobs["job-1"] = job("job-1", interruptions=1)


def hold_a_key_twice(made: History) -> None:
    made.lines.append(line("start", 2, 1.1, key="k", token=0))


def count_a_crash_as_an_attempt(made: History) -> None:
    made.jobs["job-3"] = job(
        "job-3", token=2, result=msgspec.msgpack.encode(2), crashes=1, attempts=1
    )


def fail_what_should_succeed(made: History) -> None:
    made.jobs["job-1"] = job("job-1", state=State.FAILED, attempts=1)


def claim_too_early(made: History) -> None:
    made.lines[0] = line("start", 1, 1.0, key="k", at=5, due=6)


def start_before_its_time(made: History) -> None:
    made.acked[0] = Acked(1, "job-1", Expect(after=2.0), NOW)


def notice_a_loss_late(made: History) -> None:
    made.crashed = {"job-3": [round((NOW + 9) * 1000)]}


def miscount(made: History) -> None:
    made.counted = 4


BREAKS: dict[str, list[Callable[[History], None]]] = {
    "I1 no loss": [forget_a_job, leave_a_job_running],
    "I2 no phantom": [run_what_was_never_enqueued],
    "I3 one outcome": [
        keep_the_result_of_a_stale_run,
        start_one_claim_twice,
        succeed_without_a_return,
        go_back_to_an_older_token,
    ],
    "I4 bounded duplicates": [
        run_again_with_no_lease_lost,
        lose_a_claim_that_was_on_disk,
        lose_a_claim_with_a_key,
        lose_two_claims_to_one_kill,
        lose_a_lease_in_a_sound_process,
        lose_a_lease_with_nothing_broken,
        count_a_run_that_never_was,
    ],
    "I5 key mutex": [hold_a_key_twice],
    "I6 attempts": [count_a_crash_as_an_attempt, fail_what_should_succeed],
    "I8 not early": [claim_too_early, start_before_its_time],
    "I12 self-heal": [notice_a_loss_late],
    "I13 conservation": [forget_a_job, miscount],
}


@pytest.mark.parametrize(
    ("name", "spoil"), [(name, spoil) for name, spoils in BREAKS.items() for spoil in spoils]
)
def test_a_broken_history_is_noticed_and_named(name: str, spoil: Callable[[History], None]) -> None:
    made = history()
    spoil(made)
    assert any(violation.startswith(name) for violation in check(made).violations)


def test_every_invariant_has_been_broken() -> None:
    assert set(BREAKS) == set(INVARIANTS)
