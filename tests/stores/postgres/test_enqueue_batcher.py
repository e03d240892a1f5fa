"""Many callers that enqueue at once."""

import asyncio

import pytest

from mita.errors import MitaError
from mita.model.job import Receipt
from mita.stores.postgres import PostgresStore
from mita.testing.contract.given import claimed_ids, job, jobs

from .shared import server


async def test_each_caller_gets_the_answer_to_its_own_jobs(store: PostgresStore) -> None:
    calls = [jobs(n % 4) for n in range(60)]
    answers = await asyncio.gather(*(store.enqueue(call) for call in calls))
    assert answers == [[Receipt(new.id) for new in call] for call in calls]


async def test_they_share_transactions(store: PostgresStore, url: str) -> None:
    """I14: a commit for each would be a sync to disk for each."""
    await store.enqueue([job()])
    await asyncio.gather(*(store.enqueue([job()]) for _ in range(200)))
    [(inserts,)] = server("pg18").execute(
        f"select count(distinct xmin::text) from {url.rpartition('=')[2]}._job"
    )
    assert inserts < 20


async def test_a_job_that_is_rejected_fails_its_own_caller_only(store: PostgresStore) -> None:
    good = [job(), job()]
    calls = [
        store.enqueue([good[0]]),
        store.enqueue([job(priority=2**40)]),
        store.enqueue([good[1]]),
    ]
    first, bad, last = await asyncio.gather(*calls, return_exceptions=True)
    assert isinstance(bad, MitaError)
    assert (first, last) == ([Receipt(good[0].id)], [Receipt(good[1].id)])
    assert await claimed_ids(store) == [new.id for new in good]


async def test_a_caller_that_is_cancelled_cancels_no_other(store: PostgresStore) -> None:
    new = job()
    impatient = asyncio.ensure_future(store.enqueue([job()]))
    patient = asyncio.ensure_future(store.enqueue([new]))
    await asyncio.sleep(0)
    impatient.cancel()
    with pytest.raises(asyncio.CancelledError):
        await impatient
    assert await patient == [Receipt(new.id)]
