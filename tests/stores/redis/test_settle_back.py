"""Retries and moves are settled many at a time, and their jobs start again many at a time. The
result is the same as that of the general path, which looks at one job after the other."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import pytest
from msgspec.structs import replace

from mita.model.job import Claim, NewJob, State
from mita.model.outcome import (
    Answer,
    CancelJob,
    Counter,
    Held,
    PrioritiseJob,
    Progress,
    RescheduleJob,
    Settlement,
    TimelineKind,
    Verdict,
)
from mita.model.time import HOUR, Wait, When
from mita.rules.judge import success
from mita.rules.timeline import TIMELINE_LINES
from mita.stores.redis import RedisStore, settle
from mita.stores.redis.scripting import record_code
from mita.stores.redis.scripting.scripts import script
from mita.testing.contract.clocks import FakeTicker

from .load import DONE, QUEUE, jobs
from .servers import Server

LEASE = 60_000
NO_LIVE_PART = b"\xdc\xff\xff"  # what no live part begins with
KEPT = success(b"\x01", HOUR)
Seen = list[Any]


def retry(wait: Wait, error: str) -> Verdict:
    return Verdict(
        state=State.QUEUED,
        when=When(wait),
        counts=Counter.ATTEMPTS,
        error=error,
        event=TimelineKind.RETRIED,
        note=f"{error}; retry",
        failure=error,
    )


def move(when: When | None, **more: Any) -> Verdict:
    event = TimelineKind.RESCHEDULED
    counts = Counter.RESCHEDULES
    return Verdict(state=State.QUEUED, when=when, counts=counts, event=event, **more)


@contextmanager
def one_by_one(patch: pytest.MonkeyPatch) -> Iterator[None]:
    """Every job goes through the general path: no live part is taken apart, and no settlement is in
    a group of jobs that go back."""
    with patch.context() as inner:
        inner.setattr(record_code, "live_start", lambda: NO_LIVE_PART)
        inner.setattr(settle, "_goes_back", lambda claim, verdict: False)
        script.cache_clear()
        yield
    script.cache_clear()


async def seen(store: RedisStore, claims: Sequence[Claim], made: Sequence[NewJob]) -> Seen:
    """What anyone can see of the jobs and of the claims."""
    plain = [replace(claim, ref=None) for claim in claims]
    lines = [await store.timeline(job.id) for job in made]
    return [plain, await store.find([job.id for job in made]), lines, await store.queues()]


async def a_day(store: RedisStore, clock: FakeTicker, made: list[NewJob]) -> Seen:
    """Jobs of several kinds that go back twice and succeed; something happens to some meanwhile."""
    found: Seen = []
    await store.enqueue(made)
    claims = (await store.claim([QUEUE], 100, LEASE, "w1")).claims
    ids = [claim.id for claim in claims]
    assert await store.amend(ids[:1], CancelJob(HOUR)) == [Answer.ASKED]
    assert await store.amend(ids[1:2], RescheduleJob(When(HOUR))) == [Answer.ASKED]
    assert await store.amend(ids[2:3], PrioritiseJob(7)) == [Answer.DONE]
    assert await store.progress([Progress(claims[3], b"half")]) == [True]
    assert await store.extend(claims[4:6], 2 * LEASE) == [Held.HELD] * 2
    await clock.tick(10)
    verdicts = [retry(10, "boom"), move(When(20), stranded=True), retry(30, ""), move(None)]
    verdicts += [move(When(0, clock.now() + 15)), move(When(0, 5)), move(When(0))]
    back = [Settlement(claim, verdicts[at % 7]) for at, claim in enumerate(claims)]
    stale = replace(back[8], claim=replace(claims[8], token=claims[8].token - 1))
    found.append(await store.settle([stale, *back[:8]]))
    found.append(await store.settle(back))
    found += await seen(store, claims, made)
    for worker, ends in (("w2", [retry(5, "again"), move(When(5))]), ("w1", [DONE, KEPT])):
        await clock.tick(40)
        claims = (await store.claim([QUEUE], 100, LEASE, worker)).claims
        found += await seen(store, claims, made)
        done = [Settlement(claim, ends[at % 2]) for at, claim in enumerate(claims)]
        found.append(await store.settle(done))
        found += await seen(store, claims, made)
    return found


async def test_jobs_that_go_back_many_at_a_time_look_as_if_they_went_one_by_one(
    server: Server, own_store: RedisStore, clock: FakeTicker, monkeypatch: pytest.MonkeyPatch
) -> None:
    """I3 I4 I7"""
    made = jobs(20) + jobs(4, priority=8) + jobs(2, unique="u") + jobs(2, fair="g")
    made += jobs(2, resource="r", limit=2)
    begin = clock.now()
    together = await a_day(own_store, clock, made)
    with server.client() as client:
        keys = set(client.keys("*"))
        client.flushall()
    clock.move_ms(begin - clock.now())
    with one_by_one(monkeypatch):
        assert await a_day(own_store, clock, made) == together
    with server.client() as client:
        assert set(client.keys("*")) == keys


async def test_a_job_that_goes_back_again_and_again_keeps_a_timeline_of_some_length(
    own_store: RedisStore,
) -> None:
    """I7"""
    made = jobs(8)
    await own_store.enqueue(made)
    settlements: list[Settlement] = []
    for _ in range(TIMELINE_LINES + 5):
        turn = await own_store.settle_and_claim(settlements, [QUEUE], 8, LEASE, "w1")
        assert [claim.id for claim in turn.claims] == [job.id for job in made]
        settlements = [Settlement(claim, move(When(0))) for claim in turn.claims]
    lines = await own_store.timeline(made[0].id)
    assert len(lines) == TIMELINE_LINES
    assert lines[0].kind == TimelineKind.FOLDED
    assert await own_store.settle([replace(one, verdict=DONE) for one in settlements]) == [True] * 8


async def test_jobs_that_went_back_leave_nothing(server: Server, own_store: RedisStore) -> None:
    """I14"""
    await own_store.enqueue(jobs(20))
    for verdict in (retry(0, "boom"), move(When(0)), DONE):
        claims = (await own_store.claim([QUEUE], 100, LEASE, "w1")).claims
        assert all(await own_store.settle([Settlement(claim, verdict) for claim in claims]))
    with server.client() as client:
        for key in ("jobs", "lease", "runs", "left", "due:5", "ready:5"):
            assert not client.exists(f"mita:{{{QUEUE}}}:{key}")
        assert not client.keys("*:events:*")
        for name in ("live", "error", "progress"):
            assert not [id for id in client.hkeys(f"mita:{{{QUEUE}}}:{name}") if id]
