"""Many jobs are changed with a few requests for all. Each of them must be as if it had been changed
alone."""

from typing import Any

import pytest

from mita.model.job import State
from mita.model.outcome import (
    Answer,
    CancelJob,
    Change,
    DeleteJob,
    PrioritiseJob,
    RescheduleJob,
    RetryJob,
    SignalJob,
)
from mita.model.time import HOUR, NOW, When
from mita.stores.nats import NatsStore, amend
from mita.stores.nats.stream import job_records
from mita.stores.nats.stream.job_records import locate
from mita.testing.contract.given import claims, fail, put, running, settled, state_of
from tests.waiting import until

from .test_fail_points import dies

CHANGES: list[Change] = [
    PrioritiseJob(8),
    RescheduleJob(When(HOUR), "later"),
    RescheduleJob(NOW, "now"),
    CancelJob(HOUR, "why"),
    RetryJob(NOW, "again"),
    SignalJob("go", b"\x01"),
    DeleteJob(),
]


async def one_of_each(store: NatsStore, queue: str) -> list[str]:
    """Returns jobs in all states, with keys and without, and an id that is not there."""
    run = await running(store, queue=queue)
    failed = await running(store, queue=queue)
    await settled(store, fail(failed))
    holder = await running(store, queue=queue, resource="r")
    blocked = await put(store, queue=queue, resource="r")
    assert await claims(store, queues=[queue]) == []
    ready = await put(store, queue=queue)
    later = await put(store, queue=queue, when=When(HOUR))
    unique = await put(store, queue=queue, unique="u", when=When(HOUR))
    return [run.id, failed.id, holder.id, blocked, ready, later, unique, "none"]


async def stored(store: NatsStore, id: str) -> tuple[Any, ...]:
    """What is stored of a job, without its names and times."""
    [job] = await store.find([id])
    if job is None:
        return (None,)
    events = [(entry.kind, entry.note) for entry in await store.timeline(id)]
    is_later = job.due > await store.now() + HOUR // 2
    values = await store.once_values(id)
    left = (job.asked, job.reschedules, job.attempts, job.blocked_at, job.finished is None)
    return (job.state, job.priority, is_later, events, values, *left)


@pytest.mark.parametrize("change", CHANGES, ids=lambda one: type(one).__name__)
async def test_as_if_each_was_changed_alone(
    store: NatsStore, change: Change, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(amend, "AMEND_PLAIN_JOBS", 3)
    alone, together = await one_of_each(store, "alone"), await one_of_each(store, "together")
    answers = [answer for id in alone for answer in await store.amend([id], change)]
    assert await store.amend(together, change) == answers
    assert len(set(answers)) > 1, "the change does not suit all of them"
    assert [await stored(store, id) for id in together] == [await stored(store, id) for id in alone]
    ready = [len(await claims(store, queues=[queue])) for queue in ("alone", "together")]
    assert ready[0] == ready[1]


async def test_a_job_that_another_store_changes_meanwhile(
    store: NatsStore, twin: NatsStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    ids = [await put(store, when=When(HOUR)) for _ in range(3)]

    async def late(*args: Any) -> Any:
        monkeypatch.setattr(amend, "locate", locate)
        found = await locate(*args)
        await twin.amend([ids[1]], PrioritiseJob(2))
        return found

    monkeypatch.setattr(amend, "locate", late)
    assert await store.amend(ids, CancelJob(HOUR)) == [Answer.DONE] * 3
    found = [job for job in await store.find(ids) if job is not None]
    assert [(job.state, job.priority) for job in found] == [
        (State.CANCELLED, 5),
        (State.CANCELLED, 2),
        (State.CANCELLED, 5),
    ]


async def test_a_store_that_dies_before_it_stores_the_tickets(
    store: NatsStore, twin: NatsStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(job_records, "SAFETY_DELAY_MS", 1000)
    ids = [await put(store, when=When(HOUR)) for _ in range(3)]
    await dies(store, "between record and ticket", lambda: store.amend(ids, RescheduleJob(NOW)))
    assert await state_of(twin, ids[0]) is State.QUEUED
    found: set[str] = set()

    async def all_came() -> bool:
        found.update(claim.id for claim in await claims(twin))
        return found == set(ids)

    await until(all_came, "all of them come")
