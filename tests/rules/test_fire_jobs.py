"""The job of one fire: when it is due, and its keys."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from mita.errors import UsageError
from mita.model.gate import Gate
from mita.model.job import Asked, Job, State, WhenBusy
from mita.model.pattern import All, Cron, Every, JobTemplate, RepeatSpec
from mita.model.policy import JobOptions, Retry
from mita.model.repeat import Repeat
from mita.model.time import DAY, HOUR, MINUTE, SECOND, Moment
from mita.rules.expiry import deadline_of
from mita.rules.gates import keys_of
from mita.rules.options import options_of, with_pause_after
from mita.rules.schedule.fire import plan
from mita.rules.schedule.jobs import backfill_spec, delay, fire_id, is_superseded, job
from mita.rules.schedule.spec import pack, unpack
from mita.rules.schedule.times import before, between, following
from mita.tasks.options import pack_options

from .given import NOON
from .test_cron import utc

TEMPLATE = JobTemplate(task="digest", queue="mail", payload=b"p")


def spec(pattern: Every | Cron | None = None, **more: Any) -> RepeatSpec:
    return RepeatSpec(**{"pattern": pattern or Every(60), "job": TEMPLATE, **more})


def due(wanted: RepeatSpec, time: Moment, key: str = "digest") -> Moment:
    at = job(key, wanted, time).when.at
    assert at is not None
    return at


# ---------------------------------------------------------------- jitter


def test_without_jitter_a_job_is_due_at_its_fire_time() -> None:
    assert due(spec(), NOON) == NOON


@given(
    jitter=st.integers(1, 3 * HOUR),
    n=st.integers(0, 10**6),
    pattern=st.sampled_from([Every(0.01), Every(60), Every(3600), Cron("*/7 9 * * *")]),
)
def test_jobs_with_jitter_are_due_in_the_order_of_their_fire_times(
    jitter: int, n: int, pattern: Every | Cron
) -> None:
    """A delay is less than the jitter, and less than the time to the next fire."""
    wanted = spec(pattern, jitter=jitter)
    time = following(wanted, NOON + n * SECOND, NOON)
    assert time is not None
    later = following(wanted, time, time)
    assert later is not None
    assert time <= due(wanted, time) < min(time + jitter, later)
    made = job("digest", wanted, time)
    assert (made.fire_time, made.id) == (time, fire_id("digest", time)), "both stay nominal"


def test_the_delay_follows_from_repeat_and_fire_time_alone() -> None:
    """So every scheduler computes the same, and a catch-up does not change it."""
    wanted = spec(jitter=30 * SECOND, missed=All())
    times = [NOON + n * MINUTE for n in range(200)]
    delays = [delay("digest", wanted, time) for time in times]
    assert delays == [delay("digest", wanted, time) for time in times]
    assert delays != [delay("pulse", wanted, time) for time in times]
    assert len(set(delays)) > 150, "they differ from fire to fire"
    assert min(delays) < 3 * SECOND < 27 * SECOND < max(delays), "and are spread over the range"
    late = plan(Repeat(key="digest", spec=b"", cursor=NOON), wanted, NOON + 50 * MINUTE)
    assert [made.when.at for made in late.jobs] == [
        time + delay("digest", wanted, time) for time in times[: len(late.jobs)]
    ]
    assert len(late.jobs) == 50


def test_a_job_that_a_person_triggers_has_no_jitter() -> None:
    assert job("digest", spec(jitter=HOUR), NOON, id="f" * 32).when.at == NOON


def test_the_last_fire_of_a_repeat_that_ends_has_its_whole_jitter() -> None:
    wanted = spec(Every(60), jitter=HOUR, end_before=NOON + 1)
    assert any(delay(str(n), wanted, NOON) > MINUTE for n in range(20)), "no later fire cuts it"


def test_a_deadline_is_counted_from_the_due_time_that_jitter_gave() -> None:
    template = replace(TEMPLATE, options=pack_options(Retry(), None, deadline=60))
    made = job("digest", spec(Every(3600), jitter=HOUR, job=template), NOON)
    assert made.when.at is not None
    assert made.when.at > NOON
    again = made.when.at + 10 * SECOND
    stored = replace(OLD, options=made.options, created=NOON, due=again, attempts=1)
    assert deadline_of(stored) == made.when.at + MINUTE, "also when it was tried before"
    assert job("digest", spec(jitter=HOUR), NOON).options == b"", "others pay nothing"


# ---------------------------------------------------------------- overlap


def test_each_policy_has_its_key() -> None:
    keys = {
        overlap: (
            job("k", spec(overlap=overlap), NOON).unique,
            job("k", spec(overlap=overlap), NOON).resource,
        )
        for overlap in ("allow", "skip", "queue", "cancel")
    }
    assert keys == {
        "allow": (None, None),
        "skip": ("repeat:k", None),
        "queue": (None, "repeat:k"),
        "cancel": (None, "repeat:k"),
    }


@pytest.mark.parametrize("overlap", ["skip", "queue", "cancel"])
def test_a_limit_for_a_key_that_was_left_out_is_not_that_of_the_repeat(overlap: Any) -> None:
    """`task.options(resource=None)` leaves the task's limit and `when_busy` where they are."""
    template = replace(TEMPLATE, limit=5, when_busy=WhenBusy.SKIP)
    wanted = spec(overlap=overlap, job=template)
    jobs = [job("k", backfill_spec("k", wanted), NOON)]
    if overlap != "skip":
        jobs.append(job("k", wanted, NOON))
    for made in jobs:
        assert (made.limit, made.when_busy) == (1, WhenBusy.WAIT)


@pytest.mark.parametrize("overlap", ["queue", "cancel"])
def test_the_key_of_the_repeat_comes_beside_those_of_the_task(overlap: Any) -> None:
    gates = (Gate("gpu", 4), Gate("task:t", None, 1000, 1))
    template = replace(TEMPLATE, resource="account", limit=2, gates=gates)
    made = job("k", spec(overlap=overlap, job=template), NOON)
    assert (made.resource, made.limit) == ("account", 2), "`Unavailable` is about this key"
    assert made.gates == (Gate("repeat:k", 1), *gates)
    assert is_superseded(replace(OLD, resource="account", gates=made.gates), "k", NOON + 1)


SKIPS = replace(TEMPLATE, resource="r", when_busy=WhenBusy.SKIP)


@pytest.mark.parametrize(
    ("choices", "remedy"),
    [
        ({"overlap": "kill"}, "'allow', 'skip', 'queue', 'cancel'"),
        ({"overlap": "queue", "job": SKIPS}, "when_busy='wait'"),
        ({"overlap": "cancel", "job": SKIPS}, "when_busy='wait'"),
        ({"overlap": "cancel", "missed": All(3)}, "missed='once'"),
        ({"jitter": -1}, "0 or more"),
        ({"pause_after": 0}, "1 or more"),
        ({"pause_after": True}, "1 or more"),
        ({"pause_after": 2.0}, "1 or more"),
    ],
)
def test_a_choice_that_cannot_be_is_refused_with_the_remedy(
    choices: dict[str, Any], remedy: str
) -> None:
    with pytest.raises(UsageError, match=remedy):
        spec(**choices)


def test_a_fire_names_the_older_jobs_that_it_cancels() -> None:
    wanted = spec(overlap="cancel")
    first = plan(Repeat(key="k", spec=b"", cursor=NOON), wanted, NOON)
    assert first.cancels == ()
    later = Repeat(key="k", spec=b"", cursor=NOON, last=NOON - MINUTE)
    assert plan(later, wanted, NOON).cancels == (
        fire_id("k", NOON - MINUTE),
        fire_id("k", NOON - 2 * MINUTE),
    )
    assert plan(later, spec(overlap="queue"), NOON).cancels == ()


OLD = Job(
    id=fire_id("k", NOON),
    task="t",
    queue="q",
    state=State.RUNNING,
    priority=5,
    due=0,
    created=0,
    payload=b"",
    resource="repeat:k",
    repeat="k",
    fire_time=NOON,
)


@pytest.mark.parametrize("state", State)
def test_an_older_job_that_has_not_ended_is_superseded(state: State) -> None:
    ended = state in (State.SUCCEEDED, State.FAILED, State.CANCELLED)
    assert is_superseded(replace(OLD, state=state), "k", NOON + 1) is not ended


@pytest.mark.parametrize(
    "other",
    [
        {"fire_time": NOON + 1},
        {"fire_time": NOON + 2},
        {"fire_time": None},
        {"fire_time": NOON - 1},
        {"id": "one that a person triggered"},
        {"repeat": "other"},
        {"repeat": None},
        {"resource": "backfill:k"},
        {"resource": None},
        {"asked": Asked.CANCEL},
    ],
)
def test_no_other_job_is_superseded(other: dict[str, Any]) -> None:
    assert not is_superseded(replace(OLD, **other), "k", NOON + 1)


# ---------------------------------------------------------------- the fire before, and a range


def test_the_fire_before_another() -> None:
    assert before(spec(Every(60)), NOON) == NOON - MINUTE
    daily = spec(Cron("0 9 * * MON-FRI"), start_after=utc(2030, 1, 7), end_before=utc(2030, 1, 8))
    assert before(daily, utc(2030, 1, 7, 9)) == utc(2030, 1, 4, 9), "a Friday, before its start"
    assert before(spec(Cron("0 0 1 1 *")), utc(2030, 1, 1)) == utc(2029, 1, 1)


@given(
    start=st.integers(-5000, 5000),
    length=st.integers(1, 3000),
    interval=st.integers(10, 700),
)
def test_intervals_of_a_range_are_counted_from_the_cursor_in_both_directions(
    start: int, length: int, interval: int
) -> None:
    wanted = spec(Every(interval / SECOND))
    found = list(between(wanted, NOON + start, NOON + start + length, NOON))
    assert found == [NOON + at for at in range(start, start + length) if at % interval == 0]


def test_a_range_has_only_fires_within_the_bounds_of_the_repeat() -> None:
    wanted = spec(Cron("0 9 * * *"), start_after=utc(2030, 1, 2), end_before=utc(2030, 1, 4))
    assert list(between(wanted, utc(2030, 1, 1), utc(2030, 1, 9), 0)) == [
        utc(2030, 1, 2, 9),
        utc(2030, 1, 3, 9),
    ]


def test_a_range_includes_its_start_and_not_its_end() -> None:
    wanted = spec(Cron("0 9 * * *"))
    assert list(between(wanted, utc(2030, 1, 1, 9), utc(2030, 1, 2, 9), 0)) == [utc(2030, 1, 1, 9)]


@pytest.mark.parametrize(
    ("overlap", "own", "keys"),
    [
        ("allow", None, ()),
        ("allow", "r", ("r",)),
        ("skip", None, ("backfill:k",)),
        ("skip", "r", ("r", "backfill:k")),
        ("queue", None, ("repeat:k",)),
        ("queue", "r", ("r", "repeat:k")),
        ("cancel", None, ("backfill:k",)),
        ("cancel", "r", ("r", "backfill:k")),
    ],
)
def test_the_jobs_of_a_backfill(overlap: Any, own: str | None, keys: tuple[str, ...]) -> None:
    options = with_pause_after(b"", 3)
    template = replace(TEMPLATE, resource=own, options=options)
    if overlap == "allow":
        template = replace(template, unique="u", unique_for=DAY)
    made = job("k", backfill_spec("k", spec(overlap=overlap, job=template, pause_after=3)), NOON)
    assert (made.id, made.fire_time) == (fire_id("k", NOON), NOON), "those of the fire"
    assert (made.unique, made.unique_for, made.when_busy) == (None, 0, WhenBusy.WAIT)
    assert keys_of(made.resource, made.gates) == keys
    assert options_of(made.options) == JobOptions()


def test_a_spec_that_an_older_version_packed_can_be_read() -> None:
    """It has no jitter and no `pause_after`, and says so by leaving them out."""
    plain = spec(overlap="skip")
    assert unpack(pack(plain)) == plain
    assert not [word for word in (b"jitter", b"pause_after") if word in pack(plain)], (
        "so an older worker reads it, too"
    )
