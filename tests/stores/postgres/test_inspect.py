"""Reads that belong together see one snapshot, and counts by ranges of an index are exact."""

import random
from typing import Any

import pytest

from mita.model.job import PRIORITIES
from mita.model.time import HOUR, LATEST, MINUTE, SECOND, Wait, When
from mita.model.view import JobFilter, QueueView
from mita.stores.postgres import PostgresStore, connection
from mita.stores.postgres.server.connect import PsycopgConnection
from mita.testing.contract.clocks import FakeTicker
from mita.testing.contract.given import QUEUE, claims, job, put, put_many

SOME_PRIORITIES = (PRIORITIES[0], -2, -1, 0, 1, 5, 6, PRIORITIES[-1])


async def test_a_job_that_starts_while_queues_are_counted_is_counted_as_it_was(
    store: PostgresStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    """I13. It starts after the statement that counts running jobs, which has seen another one, and
    before the one that says how many are due."""
    await put_many(store, 2)
    assert len(await claims(store, 1)) == 1
    execute, counts = connection.execute, store._state.statements["queues_counts"]

    async def and_then_it_starts(on: PsycopgConnection, text: str, values: dict[str, Any]) -> Any:
        cursor = await execute(on, text, values)
        if text == counts:
            assert await cursor.fetchone() is not None, "the server has counted"
            await cursor.scroll(0, mode="absolute")
            assert len(await claims(store, 1)) == 1
        return cursor

    monkeypatch.setattr(connection, "execute", and_then_it_starts)
    [view] = await store.queues()
    assert (view.name, view.scheduled, view.ready, view.running) == (QUEUE, 0, 1, 1)


@pytest.mark.parametrize("ageing", [None, SECOND])
async def test_ahead_is_the_place_in_the_order_of_starts(
    timed: PostgresStore, clock: FakeTicker, ageing: Wait | None
) -> None:
    """Due times are whole seconds, so that jobs of different priorities often have the same age."""
    timed.ageing = ageing
    chance = random.Random(7)
    await put(timed, queue="other", priority=PRIORITIES[-1])
    for _ in range(6):
        some = [job(priority=chance.choice(SOME_PRIORITIES)) for _ in range(5)]
        later = job(priority=PRIORITIES[-1], when=When(wait=MINUTE))
        await timed.enqueue([*some, later])
        await clock.tick(SECOND)
    waiting = (await timed.page(JobFilter(queue=QUEUE), None, 100)).jobs
    places = {one.id: await timed.ahead(one.id) for one in waiting}
    order = [claim.id for claim in await claims(timed, 100)]
    assert len(order) == 30
    assert places == dict.fromkeys(places) | {id: place for place, id in enumerate(order)}


async def test_queued_jobs_of_all_priorities_are_counted(
    timed: PostgresStore, clock: FakeTicker
) -> None:
    """With and without groups; the job that has been due for the longest has neither the lowest nor
    the highest priority."""
    await put(timed, priority=0)
    await clock.tick(SECOND)
    for more in ({}, {"fair": "g"}):
        for priority in SOME_PRIORITIES:
            await put(timed, priority=priority, **more)
            await put(timed, priority=priority, when=When(wait=HOUR), **more)
        await put(timed, priority=PRIORITIES[0], when=When(at=LATEST), **more)
    await put(timed, queue="later", when=When(wait=HOUR))
    await put(timed, queue="shared", fair="g", when=When(at=LATEST))
    await clock.tick(SECOND)
    many = 2 * len(SOME_PRIORITIES)
    assert await timed.queues() == [
        QueueView(name="later", scheduled=1),
        QueueView(name=QUEUE, ready=many + 1, scheduled=many, waiting=2, oldest=2 * SECOND),
        QueueView(name="shared", waiting=1),
    ]
