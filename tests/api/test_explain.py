"""Every reason why a job is not running, and their order."""

import asyncio
from typing import Any

import msgspec
import pytest
from msgspec.structs import replace

from mita import Mita
from mita.model.gate import Gate, StoredLimit
from mita.model.job import Job, State
from mita.model.outcome import TimelineEntry
from mita.model.policy import JobOptions
from mita.model.time import LATEST, MINUTE, SECOND
from mita.model.view import Holder, QueueView, ResourceView, WorkerView
from mita.rules.display import span
from mita.rules.durable import NEVER, pack_durable, wait_name
from mita.rules.explain.evidence import Evidence, Reason, ReasonCode
from mita.rules.explain.reasons import explain
from mita.rules.moves import SLOWED
from tests.waiting import until

from .conftest import working

NOW = 1_900_000_000_000
JOB = Job(
    id="j1",
    task="send",
    queue="mail",
    state=State.QUEUED,
    priority=5,
    due=NOW - SECOND,
    created=NOW - MINUTE,
    payload=b"",
)
WORKER = WorkerView(
    id="w1",
    name="blue",
    host="h",
    pid=7,
    queues=("mail",),
    tasks=("send",),
    slots=4,
    running=1,
    rate=2.6,
    seen=NOW,
)
BUSY = replace(WORKER, running=4)
ALL_WELL: dict[str, Any] = {
    "now": NOW,
    "workers": (WORKER,),
    "queues": (QueueView(name="mail"),),
    "ahead": 0,
}


def reasons(job: dict[str, Any], **evidence: Any) -> list[Reason]:
    return explain(Evidence(job=replace(JOB, **job), **{**ALL_WELL, **evidence}))


def codes(job: dict[str, Any], **evidence: Any) -> list[str]:
    return [reason.code for reason in reasons(job, **evidence)]


def words(job: dict[str, Any], **evidence: Any) -> str:
    return "\n".join(str(reason) for reason in reasons(job, **evidence))


SCHEDULED = {"due": NOW + 4 * MINUTE}
WAITS = (TimelineEntry(1, "waiting", "for the signal 'approval'", "w1"),)
BLOCKED = {"state": State.BLOCKED, "resource": "account:42"}
HELD = ResourceView(
    queue="mail", key="account:42", holders=(Holder("j0", "w1", NOW - 3 * MINUTE),), waiting=13
)
RUNNING = {
    "state": State.RUNNING,
    "worker": "w1",
    "started": NOW - 3 * SECOND,
    "lease_until": NOW + SECOND,
    "attempts": 1,
}


@pytest.mark.parametrize(
    ("job", "evidence", "says"),
    [
        (SCHEDULED, {}, ["due in 4 m", "scheduled for then"]),
        ({**SCHEDULED, "repeat": "daily"}, {}, ["repeat 'daily'"]),
        (
            {**SCHEDULED, "attempts": 2, "error": "RuntimeError: no\ntrace"},
            {
                "events": (
                    TimelineEntry(1, "rescheduled", "from outside"),
                    TimelineEntry(2, "retried", "…"),
                )
            },
            ["due in 4 m", "retry 2 of 3 after RuntimeError: no"],
        ),
        (
            SCHEDULED,
            {"events": (TimelineEntry(1, "rescheduled", "by its handler", "w1"),)},
            ["rescheduled by its handler"],
        ),
        (
            SCHEDULED,
            {"events": (TimelineEntry(1, "rescheduled", "rate limit", "w1"),)},
            ["by its handler (rate limit)"],
        ),
        (
            SCHEDULED,
            {"events": (TimelineEntry(1, "rescheduled", "by ada on h"),)},
            ["rescheduled from outside (by ada on h)"],
        ),
        (
            SCHEDULED,
            {
                "events": (
                    TimelineEntry(1, "retried"),
                    TimelineEntry(2, "rescheduled", "from outside"),
                )
            },
            ["from outside"],
        ),
        (
            {**SCHEDULED, "crashes": 1},
            {"events": (TimelineEntry(1, "crashed", "…"),)},
            ["worker died", "1 crash so far"],
        ),
        (SCHEDULED, {"events": (TimelineEntry(1, "unavailable", "429"),)}, ["not available (429)"]),
        (
            SCHEDULED,
            {"events": (TimelineEntry(1, "retried"), TimelineEntry(2, "sleeping", "", "w1"))},
            ["it sleeps until", "in 4 m", "goes on by itself"],
        ),
        (
            SCHEDULED,
            {"events": WAITS, "values": {wait_name("approval"): pack_durable(NOW + MINUTE)}},
            ["it waits for the signal 'approval' (until ", "mita signal j1 approval JSON"],
        ),
        (
            {"due": LATEST},
            {"events": WAITS, "values": {wait_name("approval"): pack_durable(NEVER)}},
            ["it waits for the signal 'approval' (without a time-out)"],
        ),
        ({"due": LATEST}, {}, ["it has no due time"]),
        (
            SCHEDULED,
            {"events": WAITS, "values": {wait_name("approval"): pack_durable(NEVER)}},
            ["(until "],  # its deadline
        ),
        (SCHEDULED, {"events": WAITS}, ["due in 4 m", "waits for the signal 'approval'"]),
        (
            SCHEDULED,
            {
                "events": (*WAITS, TimelineEntry(2, "rescheduled", "from outside")),
                "values": {wait_name("approval"): pack_durable(NOW + MINUTE)},
            },
            ["due in 4 m", "rescheduled from outside"],
        ),
        ({**SCHEDULED, "stranded": NOW - MINUTE}, {}, ["no worker that received it", "'send'"]),
        (
            BLOCKED,
            {"keys": [HELD], "ahead": 12},
            ["'account:42' is held by job j0", "blue", "for 3 m", "12 ahead"],
        ),
        (BLOCKED, {"keys": [HELD]}, ["the next in line"]),
        (
            BLOCKED,
            {"keys": [replace(HELD, holders=HELD.holders * 3)]},
            ["job j0 on", "and 2 other jobs"],
        ),
        (
            {"resource": "account:42"},
            {"keys": [HELD]},
            ["'account:42' is held by job j0", "13 ahead"],
        ),
        ({"resource": "account:42", "limit": 2}, {"keys": [HELD]}, ["ready since"]),
        (
            {**SCHEDULED, "resource": "account:42"},
            {"keys": [replace(HELD, held_until=NOW + 5 * MINUTE)]},
            ["due in", "on hold"],
        ),
        (
            BLOCKED,
            {"keys": [replace(HELD, holders=(), held_until=NOW + MINUTE)]},
            ["on hold until", "in 1 m", "unhold"],
        ),
        (BLOCKED, {}, ["free again"]),
        ({**BLOCKED, "limit": 2}, {"keys": [HELD]}, ["free again"]),
        (
            {},
            {"queues": (QueueView(name="mail", paused=NOW - MINUTE),)},
            ["paused since", "1 m ago", "resume mail"],
        ),
        ({}, {"workers": ()}, ["no worker is alive", "start one"]),
        (
            {},
            {"workers": (replace(WORKER, queues=("web",)),)},
            ["no live worker serves queue 'mail'", "web"],
        ),
        (
            {},
            {"workers": (replace(WORKER, tasks=("other",)),)},
            ["knows the task 'send'", "deploy"],
        ),
        (
            {},
            {"workers": (BUSY,), "ahead": 312},
            ["all 4 slots", "312 jobs ahead", "about 2 m at the present rate"],
        ),
        (
            {},
            {"workers": (replace(WORKER, full=True),)},
            ["sync functions use all their threads, with 1 of 4 slots busy"],
        ),
        (
            {},
            {"workers": (replace(BUSY, rates={"mail": 0.1}),), "ahead": 6},
            ["6 jobs ahead of it, about 1 m"],
        ),
        ({}, {}, ["ready since", "next in line"]),
        (
            {},
            {"workers": (replace(WORKER, offset=70 * SECOND),)},
            ["blue is 1 m 10 s ahead of the store's"],
        ),
        (RUNNING, {}, ["is running on worker blue (pid 7 on h)", "3 s ago", "attempt 2"]),
        ({**RUNNING, "asked": "cancel"}, {}, ["asked to cancel while it ran"]),
        ({**RUNNING, "asked": "reschedule"}, {}, ["asked to reschedule"]),
        ({**RUNNING, "lease_until": NOW - 5 * SECOND}, {}, ["lease expired 5 s ago", "next sweep"]),
        ({**RUNNING, "lease_until": NOW - 5 * SECOND}, {"workers": ()}, ["worker w1", "start one"]),
        (
            {
                "state": State.FAILED,
                "attempts": 4,
                "error": "ValueError: bad\n…",
                "finished": NOW - MINUTE,
            },
            {},
            ["failed after 4 failed runs", "1 m ago", "ValueError: bad", "retry"],
        ),
        (
            {"state": State.FAILED, "crashes": 4, "attempts": 1},
            {},
            ["failed after 1 failed run and 4 crashes"],
        ),
        ({"state": State.SUCCEEDED, "finished": NOW - SECOND}, {}, ["it succeeded at", "1 s ago"]),
        (
            {"state": State.CANCELLED},
            {"events": (TimelineEntry(1, "cancelled", "no need"),)},
            ["cancelled (no need)", "retry"],
        ),
        (
            {"state": State.CANCELLED},
            {"events": (TimelineEntry(1, "skipped", "k is taken"),)},
            ["cancelled: skipped (k is taken)"],
        ),
        (
            {"state": State.CANCELLED},
            {
                "events": (
                    TimelineEntry(1, "cancelled", "no need"),
                    TimelineEntry(2, "cancelled", "while it ran", "w1"),
                )
            },
            ["cancelled (no need; while it ran)"],
        ),
        (
            {
                "state": State.SUCCEEDED,
                "unique": "u",
                "unique_for": MINUTE,
                "finished": NOW - SECOND,
            },
            {},
            ["keeps the unique key 'u' until", "no new one"],
        ),
        ({"unique": "u"}, {}, ["next in line", "every enqueue with that key returns this job"]),
        ({"state": State.FAILED, "unique": "u"}, {"twin": "j9"}, ["'u' now belongs to job j9"]),
    ],
)
def test_every_reason_has_its_words(
    job: dict[str, Any], evidence: dict[str, Any], says: list[str]
) -> None:
    text = words(job, **evidence)
    for part in says:
        assert part in text


def test_what_the_job_waits_for_now_comes_before_later_obstacles() -> None:
    paused = (QueueView(name="mail", paused=NOW),)
    assert codes(SCHEDULED, queues=paused, workers=()) == [
        ReasonCode.DUE,
        ReasonCode.PAUSED,
        ReasonCode.NO_WORKER,
    ]
    assert codes(BLOCKED, keys=[HELD], queues=paused) == [ReasonCode.KEY_HELD, ReasonCode.PAUSED]
    assert codes({}, queues=paused, workers=(BUSY,)) == [ReasonCode.PAUSED]
    assert codes({}, workers=(replace(BUSY, offset=-MINUTE),)) == [
        ReasonCode.BUSY,
        ReasonCode.CLOCK,
    ]
    assert codes({"unique": "u"}, queues=paused) == [ReasonCode.PAUSED, ReasonCode.TWIN]


def test_slots_that_filled_up_since_the_last_heartbeat_count_as_busy() -> None:
    others = QueueView(name="web", running=9)
    assert codes({}, queues=(QueueView(name="mail", running=4), others)) == [ReasonCode.BUSY]
    assert codes({}, queues=(QueueView(name="mail", running=3), others)) == [ReasonCode.NEXT]
    both = (WORKER, replace(WORKER, id="w2", queues=("web",), slots=6))
    assert codes({}, queues=(QueueView(name="mail", running=3), others), workers=both) == [
        ReasonCode.NEXT
    ]


@pytest.mark.parametrize(
    ("length", "says"),
    [
        (0, "0 ms"),
        (850, "850 ms"),
        (4_200, "4.2 s"),
        (200_000, "3 m 20 s"),
        (240_000, "4 m"),
        (190_800_000, "2 d 5 h"),
    ],
)
def test_lengths_are_shown_in_their_largest_units(length: int, says: str) -> None:
    assert span(length) == says


def test_a_worker_without_a_list_of_queues_serves_all() -> None:
    assert codes({}, workers=(replace(WORKER, queues=()),)) == [ReasonCode.NEXT]


async def test_explain_gathers_its_evidence_from_the_store(app: Mita) -> None:
    release = asyncio.Event()

    @app.task(resource="key")
    async def send() -> None:
        await release.wait()

    async def says(id: str, code: ReasonCode) -> bool:
        # and its worker has sent a heartbeat
        return [reason.code for reason in await app.explain(id)] == [code]

    first = await send.enqueue()
    assert [reason.code for reason in await app.explain(first.id)] == [ReasonCode.NO_WORKER]
    async with working(app):
        await until(lambda: says(first.id, ReasonCode.RUNNING))
        second = await send.enqueue()
        await until(lambda: says(second.id, ReasonCode.KEY_HELD))
        [held] = await app.explain(second.id)
        assert first.id in held.text
        release.set()
        await second.result(10)
    assert [reason.code for reason in await app.explain(second.id)] == [ReasonCode.SUCCEEDED]
    twin = await send.options(unique="u").enqueue()
    await app.cancel(twin.id)
    other = await send.options(unique="u").enqueue()
    reasons = await app.explain(twin.id)
    assert [reason.code for reason in reasons] == [ReasonCode.CANCELLED, ReasonCode.TWIN]
    assert other.id in reasons[1].text


# ---------------------------------------------------------------- the job's own limits

MINUTE_LATE = {"due": NOW - MINUTE, "created": NOW - MINUTE}


def limited(**options: Any) -> dict[str, Any]:
    return {"options": msgspec.msgpack.encode(JobOptions(**options))}


def test_a_job_that_expired_is_told_so_before_anything_else() -> None:
    first, *others = reasons(
        {**MINUTE_LATE, **limited(expires=20.0)}, queues=(QueueView(name="mail", paused=NOW - 1),)
    )
    assert first.code is ReasonCode.EXPIRED
    assert "it expired 40 s ago, 20 s after its due time; it ends as soon as a worker" in first.text
    assert first.command == ("reschedule", "j1", "--after", "0")
    assert [reason.code for reason in others] == [ReasonCode.PAUSED]


def test_a_job_whose_deadline_is_over_is_told_so() -> None:
    first, *_ = reasons({**MINUTE_LATE, **BLOCKED, **limited(deadline=20.0)}, keys=[HELD])
    assert first.code is ReasonCode.PAST_DEADLINE
    assert "its deadline of 20 s was over 40 s ago; it fails as soon as a worker" in first.text


def test_a_job_within_its_limits_is_told_nothing_of_them() -> None:
    inside = {**MINUTE_LATE, **limited(expires=60.0, deadline=61.0)}
    assert codes(inside) == [ReasonCode.NEXT]
    assert codes({**inside, **RUNNING}) == [ReasonCode.RUNNING]
    assert codes({**SCHEDULED, **limited(expires=1.0, deadline=1.0)}) == [ReasonCode.DUE]


def test_a_run_past_its_deadline_is_told_so() -> None:
    told = reasons({**MINUTE_LATE, **RUNNING, **limited(deadline=20.0)})
    assert [reason.code for reason in told] == [ReasonCode.RUNNING, ReasonCode.PAST_DEADLINE]
    assert "its handler has not ended yet" in told[1].text


def test_a_slowed_job_is_told_how_to_help_itself() -> None:
    line = TimelineEntry(1, "rescheduled", f"{SLOWED}; by its handler", "w1")
    told = reasons({"due": NOW + SECOND, "reschedules": 11}, events=(line,))
    assert [reason.code for reason in told] == [ReasonCode.DUE, ReasonCode.SLOWED]
    assert "rescheduled 11 times" in told[1].text
    assert "Reschedule(after=…)" in told[1].remedy
    outside = TimelineEntry(2, "rescheduled", "by Ada")
    assert codes({"due": NOW + SECOND}, events=(line, outside)) == [ReasonCode.DUE]


def test_a_job_that_ended_by_its_limits_says_which() -> None:
    expired = TimelineEntry(1, "expired", "not started within 20 s of its due time", "w1")
    said = words({"state": State.CANCELLED, "finished": NOW - SECOND}, events=(expired,))
    assert "1 s ago: expired (not started within 20 s of its due time)" in said
    dead = {"state": State.FAILED, "finished": NOW, "error": "DeadlineExceeded: why\ncaused by x"}
    assert "the last error was DeadlineExceeded: why" in words(dead)


# ---------------------------------------------------------------- rates and limits

RATED = {"gates": (Gate("host:a", None, 2 * SECOND * 1000, 5),)}
WAITS_AT_RATE = {"state": State.BLOCKED, "blocked_at": "host:a", **RATED}
NO_TOKEN = ResourceView(
    queue="mail", key="host:a", waiting=4, interval_us=2_000_000, burst=5, next_start=NOW + SECOND
)


def test_a_job_that_waits_for_a_token_is_told_when_its_turn_is() -> None:
    [reason] = reasons(WAITS_AT_RATE, keys=[NO_TOKEN], ahead=3)
    assert reason.code is ReasonCode.RATE_LIMITED
    assert (
        "its rate of 1 per 2 s, burst 5 (key 'host:a') has no token now; 3 ahead of it; its turn "
        "is expected in 7 s"
    ) in reason.text
    assert (reason.evidence["ahead"], reason.evidence["seconds_between_starts"]) == (3, 2.0)


def test_a_ready_job_whose_rate_is_used_up_is_told_so() -> None:
    assert codes(RATED, keys=[NO_TOKEN]) == [ReasonCode.RATE_LIMITED]
    assert codes(RATED, keys=[replace(NO_TOKEN, next_start=None)]) == [ReasonCode.NEXT]


def test_the_key_that_is_not_free_is_named_whichever_it_is() -> None:
    several = {"resource": "account:1", "gates": (Gate("account:42", 1),)}
    [reason] = reasons(several, keys=[HELD])
    assert reason.code is ReasonCode.KEY_HELD
    assert "key 'account:42' is held by job j0" in reason.text


def test_a_key_whose_limit_was_raised_is_free() -> None:
    limited = replace(HELD, limit=StoredLimit(concurrency=2))
    assert codes(BLOCKED, keys=[limited]) == [ReasonCode.KEY_FREE]
    stopped = replace(HELD, limit=StoredLimit(concurrency=0))
    [reason] = reasons(BLOCKED, keys=[stopped])
    assert "has a limit of 0" in reason.text
    assert reason.command == ("limit", "key", "account:42", "--none", "--queue", "mail")


def test_a_queue_at_its_limit_is_named() -> None:
    full = QueueView(name="mail", running=5, limit=StoredLimit(concurrency=5))
    [reason] = reasons({}, queues=[full])
    assert reason.code is ReasonCode.QUEUE_LIMITED
    assert "queue 'mail' is at its limit: 5 of 5 jobs run; it is the next in line" in reason.text
    assert "; 7 jobs ahead of it" in words({}, queues=[full], ahead=7)
    assert reason.command == ("limit", "queue", "mail", "--concurrency", "10")
    slow = QueueView(name="mail", limit=StoredLimit(None, 10_000, 1), next_start=NOW + 40)
    [reason] = reasons({}, queues=[slow], ahead=16)
    assert "queue 'mail' starts 100/s; 16 jobs ahead of it; its turn is expected in 200 ms" in (
        reason.text
    )
    assert reason.command == ("limit", "queue", "mail", "--rate", "200/s")
    assert "it is the next in line" in words({}, queues=[slow])
    assert codes({}, queues=[replace(full, running=1)]) == [ReasonCode.NEXT]


def test_a_remedy_names_the_whole_limit() -> None:
    """A limit replaces the earlier one: a remedy that names a part of it would remove the rest."""
    limit = StoredLimit(5, 600_000, 3)
    [reason] = reasons({}, queues=[QueueView(name="mail", running=5, limit=limit)])
    options = ("--concurrency", "10", "--rate", "100/m", "--burst", "3")
    assert reason.command == ("limit", "queue", "mail", *options)
    slow = QueueView(name="mail", running=1, limit=limit, next_start=NOW + 40)
    [reason] = reasons({}, queues=[slow])
    options = ("--concurrency", "5", "--rate", "200/m", "--burst", "3")
    assert reason.command == ("limit", "queue", "mail", *options)


def test_a_remedy_says_where_the_limit_of_a_key_was_set() -> None:
    limited = replace(HELD, limit=StoredLimit(concurrency=1))
    assert "with `mita limit key`" in words(BLOCKED, keys=[limited])
    assert "give the task a higher limit=" in words(BLOCKED, keys=[HELD])
    slow = replace(NO_TOKEN, limit=StoredLimit(None, 2_000_000, 5))
    assert "(`mita limit key`) starts it sooner" in words(WAITS_AT_RATE, keys=[slow])
    assert "a higher Rate starts it sooner" in words(WAITS_AT_RATE, keys=[NO_TOKEN])


def test_a_debounced_job_is_told_what_it_waits_for() -> None:
    moved = TimelineEntry(1, "debounced")
    assert "its debounce waits for newer enqueues" in words({"due": NOW + 5000}, events=(moved,))


def test_a_job_of_a_group_is_told_that_groups_take_turns() -> None:
    assert "its group 'a' takes turns with others" in words({"fair": "a"}, ahead=2)
