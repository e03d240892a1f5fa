"""Short helpers by which the tests create jobs, claim them and settle them."""

from collections.abc import Sequence
from typing import Any

import pytest

from mita.model.job import Claim, Job, NewJob, State
from mita.model.outcome import Counter, Settlement, TimelineKind, Verdict
from mita.model.time import HOUR, NOW, Wait, When
from mita.ports.ids import new_id, new_ids
from mita.ports.store import Can, Store
from mita.rules.judge import success

from .clocks import Ticker

QUEUE = "mail"
LONG: Wait = 60_000  # longer than any test takes, on any machine
SHORT: Wait = 300  # a lease, a delay or a hold that is over …
PAST: Wait = 400  # … after a tick of this length
# For a test that also looks at what holds before: on a real clock it has this long for its calls.
SOON: Wait = 2_000
PAST_SOON: Wait = 2_100


def needs(store: Store, can: Can) -> None:
    """Skip the test for a store that does not promise this; the reason of the skip names it."""
    if can not in store.can:
        pytest.skip(
            f"{type(store).__name__} does not promise to {str(can.name).lower().replace('_', ' ')}"
        )


def exact(store: Store, clock: Ticker) -> bool:
    """Whether times can be checked to the millisecond."""
    return clock.fake and Can.KEEP_EXACT_ORDER in store.can


# ---------------------------------------------------------------- jobs


def job(**more: Any) -> NewJob:
    """A new job, with these fields."""
    return NewJob(**{"id": new_id(), "task": "send", "queue": QUEUE, "payload": b"\x90", **more})


def jobs(n: int, **more: Any) -> list[NewJob]:
    """New jobs with ascending ids, and these fields."""
    return [job(id=id, **more) for id in new_ids(n)]


async def put(store: Store, **more: Any) -> str:
    """Enqueue one job and return its id."""
    [receipt] = await store.enqueue([job(**{"fresh": "id" not in more, **more})])
    assert receipt.created, "the job that this test begins with was not created"
    return receipt.id


async def put_many(store: Store, n: int, **more: Any) -> list[str]:
    """Enqueue jobs one after the other, so that their order is certain; return their ids."""
    return [await put(store, **more) for _ in range(n)]


async def look(store: Store, id: str) -> Job:
    """Return the job, which must exist."""
    [found] = await store.find([id])
    assert found is not None, f"job {id} is gone"
    return found


async def state_of(store: Store, id: str) -> State:
    """Return the state of a job."""
    return (await look(store, id)).state


async def gone(store: Store, id: str) -> bool:
    """Whether there is no such job."""
    return await store.find([id]) == [None]


# ---------------------------------------------------------------- claims


async def claims(
    store: Store,
    limit: int = 10,
    *,
    queues: Sequence[str] = (QUEUE,),
    lease: Wait = LONG,
    worker: str = "w1",
) -> list[Claim]:
    """Claim jobs and return the claims."""
    return (await store.claim(queues, limit, lease, worker)).claims


async def claimed_ids(
    store: Store, limit: int = 10, *, queues: Sequence[str] = (QUEUE,)
) -> list[str]:
    """Claim jobs and return their ids."""
    return [claim.id for claim in await claims(store, limit, queues=queues)]


async def claim_one(
    store: Store, *, queue: str = QUEUE, lease: Wait = LONG, worker: str = "w1"
) -> Claim:
    """Claim exactly one job."""
    found = await claims(store, 1, queues=[queue], lease=lease, worker=worker)
    assert len(found) == 1, "the claim that this test begins with found nothing"
    return found[0]


async def running(store: Store, *, lease: Wait = LONG, worker: str = "w1", **more: Any) -> Claim:
    """Enqueue a job and claim it."""
    id = await put(store, **more)
    claim = await claim_one(store, queue=more.get("queue", QUEUE), lease=lease, worker=worker)
    assert claim.id == id, "this test began with another job in the queue"
    return claim


async def lost(store: Store, clock: Ticker, **more: Any) -> tuple[Claim, Claim]:
    """A job whose lease has expired: its stale claim, and the claim of the reaping worker."""
    stale = await running(store, lease=SHORT, **more)
    await clock.tick(PAST)
    [heir] = await store.reap(10, LONG, "heir")
    assert heir.id == stale.id
    return stale, heir


# ---------------------------------------------------------------- settlements


def succeed(claim: Claim, result: bytes = b"done", keep: Wait = HOUR) -> Settlement:
    """Settle a run as a success."""
    return Settlement(claim, success(result, keep))


def fail(
    claim: Claim, error: str = "Boom: no", keep: Wait = HOUR, group: str | None = None
) -> Settlement:
    """Settle a run as a failure without a retry."""
    verdict = Verdict(
        state=State.FAILED,
        counts=Counter.ATTEMPTS,
        error=error,
        keep=keep,
        event=TimelineKind.FAILED,
        note=error,
        group=group,
    )
    return Settlement(claim, verdict)


def retry(claim: Claim, wait: Wait = 0, error: str = "Boom: try again") -> Settlement:
    """Settle a run as a failure with a retry."""
    verdict = Verdict(
        state=State.QUEUED,
        when=When(wait),
        counts=Counter.ATTEMPTS,
        error=error,
        event=TimelineKind.RETRIED,
        note=error,
    )
    return Settlement(claim, verdict)


def crash(claim: Claim, wait: Wait = 0) -> Settlement:
    """Settle a run as a crash, after which the job runs again."""
    verdict = Verdict(
        state=State.QUEUED,
        when=When(wait),
        counts=Counter.CRASHES,
        error="WorkerLost",
        event=TimelineKind.CRASHED,
    )
    return Settlement(claim, verdict)


def move(claim: Claim, when: When = NOW) -> Settlement:
    """Settle a run whose handler rescheduled its job."""
    verdict = Verdict(
        state=State.QUEUED,
        when=when,
        counts=Counter.RESCHEDULES,
        event=TimelineKind.RESCHEDULED,
        note="by its handler",
    )
    return Settlement(claim, verdict)


def release(claim: Claim) -> Settlement:
    """Return a job to the queue unchanged."""
    return Settlement(claim, Verdict(state=State.QUEUED, unstarted=True))


def refuse(claim: Claim, wait: Wait) -> Settlement:
    """A run that found its resource unavailable for this long."""
    verdict = Verdict(
        state=State.BLOCKED,
        hold=When(wait),
        counts=Counter.BUSY,
        event=TimelineKind.UNAVAILABLE,
        note="429",
    )
    return Settlement(claim, verdict)


def stop(claim: Claim, keep: Wait = HOUR) -> Settlement:
    """Settle a run that was cancelled."""
    return Settlement(
        claim,
        Verdict(
            state=State.CANCELLED, keep=keep, event=TimelineKind.CANCELLED, note="while it ran"
        ),
    )


async def settled(store: Store, *settlements: Settlement) -> None:
    """Settle claims, each of which must be accepted."""
    assert await store.settle(settlements) == [True] * len(settlements)


async def done(store: Store, **more: Any) -> str:
    """A job that has succeeded. Returns its id."""
    claim = await running(store, **more)
    await settled(store, succeed(claim))
    return claim.id


async def dead(store: Store, **more: Any) -> str:
    """A job that has failed. Returns its id."""
    claim = await running(store, **more)
    await settled(store, fail(claim))
    return claim.id
