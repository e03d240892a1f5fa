"""Many jobs are amended in one call, with any keys."""

import asyncio

from mita.model.job import State
from mita.model.outcome import Answer, CancelJob, DeleteJob, RescheduleJob, RetryJob
from mita.model.time import HOUR, NOW, When
from mita.ports.store import Store

from .given import (
    LONG,
    QUEUE,
    claims,
    jobs,
)

MANY_JOBS = 400


async def put_waiting(store: Store, n: int, **more: object) -> list[str]:
    """Enqueue jobs in one call and return their ids."""
    return [receipt.id for receipt in await store.enqueue(jobs(n, fresh=True, **more))]


async def states(store: Store, ids: list[str]) -> set[State]:
    """The states of these jobs."""
    return {found.state for found in await store.find(ids) if found is not None}


async def test_many_jobs_that_wait_for_one_key_are_amended_in_one_call(store: Store) -> None:
    """One call cancels hundreds of jobs that wait for the same resource key."""
    ids = await put_waiting(store, MANY_JOBS + 1, resource="r")
    [claim] = await claims(store, 10)
    rest = [id for id in ids if id != claim.id]
    assert await states(store, rest) == {State.BLOCKED}
    assert await store.amend(rest, CancelJob(keep=HOUR)) == [Answer.DONE] * MANY_JOBS
    assert await states(store, rest) == {State.CANCELLED}
    [view] = await store.resources(QUEUE, "r")
    assert ([holder.id for holder in view.holders], view.waiting) == ([claim.id], 0)
    assert await store.amend(rest, RetryJob(NOW)) == [Answer.DONE] * MANY_JOBS
    assert await store.amend(rest, RescheduleJob(When(LONG))) == [Answer.DONE] * MANY_JOBS
    assert await states(store, rest) == {State.QUEUED}


async def test_many_jobs_with_keys_of_their_own_are_amended_in_one_call(store: Store) -> None:
    """One call cancels, retries and deletes many jobs, each with keys of its own."""
    new = [job for n in range(MANY_JOBS // 4) for job in jobs(1, resource=f"r{n}", unique=f"u{n}")]
    ids = [receipt.id for receipt in await store.enqueue(new)]
    assert await store.amend(ids, CancelJob(keep=HOUR)) == [Answer.DONE] * len(ids)
    assert await store.amend(ids, RetryJob(NOW)) == [Answer.DONE] * len(ids)
    assert await store.amend(ids, CancelJob(keep=HOUR)) == [Answer.DONE] * len(ids)
    assert await store.amend(ids, DeleteJob()) == [Answer.DONE] * len(ids)
    assert all(receipt.created for receipt in await store.enqueue(new)), "ids and keys are free"


async def test_of_two_cancels_of_one_job_one_succeeds(store: Store, twin: Store) -> None:
    """If two processes cancel the same jobs at once, each job answers `DONE` once and `TOO_LATE`
    once."""
    ids = await put_waiting(store, MANY_JOBS // 2)
    ours, theirs = await asyncio.gather(
        store.amend(ids, CancelJob(keep=HOUR)), twin.amend(ids[::-1], CancelJob(keep=HOUR))
    )
    for pair in zip(ours, theirs[::-1], strict=True):
        assert sorted(pair) == [Answer.DONE, Answer.TOO_LATE]
