"""A receiver that many jobs tell in one call is read and written once. The result is the same as
that of one call for each."""

from typing import Any

from mita.model.flow import Arrival
from mita.model.outcome import Answer, CancelJob, SignalJob
from mita.model.time import HOUR, LATEST, When
from mita.stores.redis import RedisStore

from .load import QUEUE, jobs
from .servers import Server

LEASE = 60_000
WAITING = {"when": When(at=LATEST)}


async def told(
    server: Server, store: RedisStore, in_one_call: bool
) -> tuple[list[Answer], list[int], list[Any]]:
    """Tell receivers of several kinds. Returns the answers, the order in the list of receivers of
    those that can be claimed then, and what is stored of each."""
    with server.client() as client:
        client.flushall()
    made = jobs(5, **WAITING) + jobs(1) + jobs(1, resource="r", **WAITING)
    await store.enqueue(made)
    ids = [job.id for job in made]
    await store.claim([QUEUE], 1, LEASE, "w1")
    assert await store.amend(ids[2:3], CancelJob(HOUR)) == [Answer.DONE]
    # no arrival, and must not count as one: this job is due with its fourth arrival
    assert await store.amend(ids[3:4], SignalJob("s", b"value")) == [Answer.DONE]
    needs = (3, 5, 3, 4, 1, 3, 4)
    arrivals = [
        Arrival(QUEUE, id, sender, b"%d" % at, needs[at])
        for sender in ("a", "b", "a", "c", "d")
        for at, id in enumerate(ids)
    ]
    arrivals.insert(3, Arrival(QUEUE, "unknown", "a", b"", 1))
    answers: list[Answer] = []
    if in_one_call:
        answers = await store.arrive(arrivals)
    else:
        for arrival in arrivals:
            answers += await store.arrive([arrival])
    started = [claim.id for claim in (await store.claim([QUEUE], 10, LEASE, "w1")).claims]
    found: list[Any] = []
    for job in await store.find(ids):
        assert job is not None
        values = await store.once_values(job.id)
        found.append((job.state, job.due, values, len(await store.timeline(job.id))))
    return answers, [ids.index(id) for id in started], found


async def test_a_receiver_that_is_told_many_things_in_one_call(
    server: Server, own_store: RedisStore
) -> None:
    """I3"""
    together = await told(server, own_store, in_one_call=True)
    assert together == await told(server, own_store, in_one_call=False)
    answers, started, _ = together
    assert started == [0, 3, 4, 6], "the others need more than they were told, or were cancelled"
    assert answers.count(Answer.UNKNOWN) == 1
    assert answers.count(Answer.TAKEN) == 7, "the sender that came twice"


async def test_a_receiver_that_was_told_and_is_deleted_leaves_nothing(
    server: Server, own_store: RedisStore
) -> None:
    """I14"""
    [job] = jobs(1, **WAITING)
    await own_store.enqueue([job])
    arrivals = [Arrival(QUEUE, job.id, sender, b"", 3) for sender in ("a", "b")]
    assert await own_store.arrive(arrivals) == [Answer.DONE] * 2
    assert await own_store.amend([job.id], CancelJob(0)) == [Answer.DONE]
    with server.client() as client:
        assert not client.keys(f"*{job.id}*")
