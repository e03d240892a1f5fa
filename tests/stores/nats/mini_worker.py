"""A small worker, and a log of what it saw: every run of every job, when, and with which
counters."""

import asyncio
import random
from collections import Counter as Counters
from collections.abc import Callable, Collection, Sequence
from contextlib import suppress

from mita.errors import StoreError
from mita.model.job import Claim, NewJob, State
from mita.model.outcome import Counter, Settlement, TimelineKind, Verdict
from mita.model.time import HOUR, When
from mita.ports.ids import new_ids
from mita.stores.nats import NatsStore

QUEUE = "work"
LEASE = 3000
# runs of each kind of job, without faults
RUNS = {"plain": 1, "retry": 3, "move": 3, "fail": 2}


def plan(n: int, seed: int = 1, keys: int = 0) -> list[NewJob]:
    """Returns `n` jobs: every fifth retries twice, every fifth reschedules itself twice, every
    fifth fails, some are scheduled. With `keys`, every second job has one of so many resource
    keys."""
    chance = random.Random(seed)
    kinds = ["plain", "retry", "move", "fail", "plain"]
    return [
        NewJob(
            id=id,
            task=kinds[at % 5],
            queue=QUEUE,
            payload=b"",
            priority=chance.choice([5, 5, 5, 9]),
            when=When(chance.randrange(3000) if at % 3 == 0 else 0),
            resource=f"key {chance.randrange(keys)}" if keys and at % 2 else None,
        )
        for at, id in enumerate(new_ids(n))
    ]


def verdict(claim: Claim) -> Verdict:
    """The outcome of a run follows from the job's counters alone, so that every worker gets the
    same."""
    ended = Verdict(state=State.SUCCEEDED, keep=HOUR)
    match claim.task:
        case "retry" if claim.attempts < 2:
            return Verdict(
                state=State.QUEUED,
                when=When(100),
                counts=Counter.ATTEMPTS,
                event=TimelineKind.RETRIED,
            )
        case "move" if claim.reschedules < 2:
            return Verdict(
                state=State.QUEUED,
                when=When(400),
                counts=Counter.RESCHEDULES,
                event=TimelineKind.RESCHEDULED,
            )
        case "fail" if claim.attempts < 1:
            return Verdict(
                state=State.QUEUED, when=When(), counts=Counter.ATTEMPTS, event=TimelineKind.RETRIED
            )
        case "fail":
            return Verdict(
                state=State.FAILED,
                counts=Counter.ATTEMPTS,
                error="Boom",
                keep=HOUR,
                event=TimelineKind.FAILED,
            )
    return ended


class Book:
    def __init__(self) -> None:
        self.runs: Counters[str] = Counters()
        self.early: list[str] = []
        self.stale = 0
        self.troubles: Counters[str] = Counters()

    def starts(self, claims: Sequence[Claim]) -> None:
        for claim in claims:
            self.runs[claim.id] += 1
            if claim.at < claim.due:
                self.early.append(claim.id)


async def retry(act: Callable[[], object], book: Book, within: float = 60.0) -> object:
    """Retry as long as the store reports a transient error."""
    deadline = asyncio.get_running_loop().time() + within
    while True:
        try:
            return await act()  # type: ignore[misc]
        except StoreError as error:
            if not error.transient or asyncio.get_running_loop().time() > deadline:
                raise
            book.troubles[str(error)[:60]] += 1
            await asyncio.sleep(0.1)


async def work(
    store: NatsStore, name: str, book: Book, stop: asyncio.Event, limit: int = 200
) -> None:
    """Claim and settle until `stop` is set."""
    due: list[Settlement] = []
    while not stop.is_set():
        with suppress(StoreError):
            turn = await store.claim([QUEUE], limit, LEASE, name)
            book.starts(turn.claims)
            due = [Settlement(claim, verdict(claim)) for claim in turn.claims]
            if not due:
                await store.wait([QUEUE], min(0.5, (turn.again or 500) / 1000))
        if due:
            took = await retry(lambda due=due: store.settle(due), book)  # type: ignore[misc]
            assert isinstance(took, list)
            book.stale += took.count(False)
            due = []


async def sweep(store: NatsStore, book: Book, stop: asyncio.Event) -> None:
    """Take over lost jobs, as every worker does."""
    while not stop.is_set():
        await asyncio.sleep(0.5)
        with suppress(StoreError):
            lost = await store.reap(500, LEASE, "heir")
            again = Verdict(
                state=State.QUEUED, when=When(), counts=Counter.CRASHES, event=TimelineKind.CRASHED
            )
            await store.settle([Settlement(claim, again) for claim in lost])


async def all_ended(store: NatsStore, ids: Sequence[str], within: float) -> dict[str, State]:
    deadline = asyncio.get_running_loop().time() + within
    left = list(ids)
    states: dict[str, State] = {}
    while left:
        assert asyncio.get_running_loop().time() < deadline, (
            f"{len(left)} jobs never ended, for example {left[:3]}"
        )
        with suppress(StoreError):
            found = await store.find(left)
            assert all(found), "a job is gone"
            states |= {
                job.id: job.state for job in found if job is not None and job.finished is not None
            }
            left = [id for id in left if id not in states]
        await asyncio.sleep(0.3)
    return states


async def check(
    store: NatsStore, jobs: Sequence[NewJob], book: Book, moved: Collection[str] = ()
) -> None:
    """I1 I6 I8: all jobs ended as planned, no reschedule was counted as a failure, no job was
    early. `moved` jobs were also rescheduled by the test."""
    tasks = {job.id: job.task for job in jobs}
    for at in range(0, len(jobs), 500):
        for job in await store.find([job.id for job in jobs[at : at + 500]]):
            assert job is not None
            attempts, reschedules = {
                "plain": (0, 0),
                "retry": (2, 0),
                "move": (0, 2),
                "fail": (2, 0),
            }[tasks[job.id]]
            assert job.attempts == attempts, job
            assert job.reschedules == reschedules or job.id in moved, job
            assert job.state is (State.FAILED if tasks[job.id] == "fail" else State.SUCCEEDED)
    assert book.early == []
