"""Many jobs at a time: batches with one lease, long lists, ids that are sorted while pages are
read."""

from typing import Any

from mita.model.job import Claim, NewJob, State, WhenBusy
from mita.model.outcome import (
    Answer,
    CancelJob,
    Held,
    PrioritiseJob,
    RescheduleJob,
    Settlement,
)
from mita.model.time import HOUR, NOW, When
from mita.model.view import JobFilter
from mita.rules.judge import success
from mita.stores.redis import RedisStore
from mita.testing.contract.clocks import FakeTicker

from .load import DONE, QUEUE, jobs
from .servers import Server

LONG = 300  # more than a job is looked for in a list
LOOKING = 600_000


async def claimed(store: RedisStore, many: int, lease: int = 1000) -> list[Claim]:
    return (await store.claim([QUEUE], many, lease, "w1")).claims


async def filled(store: RedisStore, many: int) -> list[NewJob]:
    made = jobs(many)
    await store.enqueue(made)
    return made


async def test_a_batch_has_one_lease_and_leaves_nothing(
    server: Server, own_store: RedisStore
) -> None:
    """I14"""
    await filled(own_store, 20)
    claims = await claimed(own_store, 20)
    client: Any = server.client()
    assert client.zcard(f"mita:{{{QUEUE}}}:lease") == 1
    assert [view.running for view in await own_store.queues()] == [20]
    assert all(await own_store.settle([Settlement(claim, DONE) for claim in claims[:19]]))
    assert [view.running for view in await own_store.queues()] == [1]
    assert await own_store.settle([Settlement(claim, DONE) for claim in claims]) == [False] * 19 + [
        True
    ]
    for key in ("lease", "runs", "left", "jobs"):
        assert not client.exists(f"mita:{{{QUEUE}}}:{key}")
    client.close()


async def test_a_job_that_outlasts_its_batch_has_a_lease_of_its_own(
    own_store: RedisStore, clock: FakeTicker
) -> None:
    """I3 I4"""
    await filled(own_store, 20)
    claims = await claimed(own_store, 20)
    assert await own_store.extend(claims[:5], 5000) == [Held.HELD] * 5
    await clock.tick(1000)
    heirs = await own_store.reap(100, 1000, "w2")
    assert {heir.id for heir in heirs} == {claim.id for claim in claims[5:]}
    assert min(heir.token for heir in heirs) > max(claim.token for claim in claims)
    done = [Settlement(claim, DONE) for claim in claims]
    assert await own_store.settle(done) == [True] * 5 + [False] * 15
    assert all(await own_store.settle([Settlement(heir, DONE) for heir in heirs]))
    assert [view.running for view in await own_store.queues()] == [0]


async def test_a_whole_batch_is_extended_as_one(
    server: Server, own_store: RedisStore, clock: FakeTicker
) -> None:
    await filled(own_store, 20)
    claims = await claimed(own_store, 20)
    assert await own_store.extend(claims, 5000) == [Held.HELD] * 20
    with server.client() as client:
        assert client.zcard(f"mita:{{{QUEUE}}}:lease") == 1
    await clock.tick(1000)
    assert await own_store.reap(100, 1000, "w2") == []
    found = await own_store.find([claims[0].id])
    assert found[0] is not None
    assert found[0].lease_until == await own_store.now() + 4000


async def test_a_change_to_one_job_of_a_batch_leaves_the_others_alone(
    own_store: RedisStore,
) -> None:
    await filled(own_store, 20)
    claims = await claimed(own_store, 20)
    assert await own_store.amend([claims[0].id], CancelJob(HOUR)) == [Answer.ASKED]
    assert await own_store.amend([claims[1].id], RescheduleJob(When(HOUR))) == [Answer.ASKED]
    assert await own_store.extend(claims[:3], 1000) == [Held.CANCEL, Held.HELD, Held.HELD]
    kept = success(b"\x01", HOUR)
    assert all(await own_store.settle([Settlement(claim, kept) for claim in claims]))
    found = await own_store.find([claim.id for claim in claims])
    states = [job.state for job in found if job is not None]
    assert states == [State.CANCELLED, State.QUEUED, *[State.SUCCEEDED] * 18]


async def test_jobs_are_removed_from_the_middle_of_a_long_list(own_store: RedisStore) -> None:
    """I2 I13"""
    made = [job.id for job in await filled(own_store, LONG)]
    assert await own_store.amend(made[:3], CancelJob(0)) == [Answer.DONE] * 3
    assert await own_store.amend(made[3:5], RescheduleJob(When(HOUR))) == [Answer.DONE] * 2
    assert await own_store.amend(made[200:201], PrioritiseJob(9)) == [Answer.DONE]
    [view] = await own_store.queues()
    assert (view.scheduled, view.ready) == (2, LONG - 5)
    assert await own_store.ahead(made[6]) == 2, (
        "the one of a higher priority, and the one before it"
    )
    assert [claim.id for claim in await claimed(own_store, 3)] == [made[200], made[5], made[6]]
    rest = [claim.id for claim in await claimed(own_store, LONG)]
    assert rest == [id for id in made[7:] if id != made[200]]
    assert await claimed(own_store, 1) == []


async def test_a_job_that_finds_its_key_busy_removes_no_other_from_a_long_list(
    server: Server, own_store: RedisStore
) -> None:
    """I1"""
    keyed = jobs(3, resource="r", when_busy=WhenBusy.SKIP)
    await own_store.enqueue([*keyed, *jobs(LONG)])
    assert [claim.id for claim in await claimed(own_store, 1)] == [keyed[0].id]
    assert len(await claimed(own_store, 10)) == 10
    with server.client() as client:
        assert not client.hexists(f"mita:{{{QUEUE}}}:meta", "gone:5"), (
            "they have left it, and are not in it any more"
        )
    assert len(await claimed(own_store, LONG)) == LONG - 10
    [view] = await own_store.queues()
    assert (view.ready, view.running, view.cancelled) == (0, LONG + 1, 2)


async def test_a_new_job_with_the_id_of_a_removed_one_is_claimed(
    own_store: RedisStore,
) -> None:
    """I2 I4"""
    made = await filled(own_store, LONG)
    assert await own_store.amend([made[0].id], CancelJob(0)) == [Answer.DONE]
    assert [receipt.created for receipt in await own_store.enqueue(made[:1])] == [True]
    order = [claim.id for claim in await claimed(own_store, LONG + 10)]
    assert order == [job.id for job in made[1:]] + [made[0].id]


async def test_a_list_whose_jobs_are_all_removed_is_empty(
    server: Server, own_store: RedisStore
) -> None:
    made = [job.id for job in await filled(own_store, LONG)]
    assert set(await own_store.amend(made, CancelJob(0))) == {Answer.DONE}
    assert [view.ready for view in await own_store.queues()] == [0]
    assert (await own_store.claim([QUEUE], 0, 1000, "w1")).again is None
    with server.client() as client:
        assert not client.exists(f"mita:{{{QUEUE}}}:ready:5")


async def test_jobs_that_were_due_earlier_are_claimed_first(
    own_store: RedisStore, clock: FakeTicker
) -> None:
    """The two halves of a line are one line."""
    early = jobs(3, when=When(500))
    await own_store.enqueue(early)
    first = await filled(own_store, 3)
    await clock.tick(1000)
    late = await filled(own_store, 3)
    expected = [job.id for job in (*first, *early, *late)]
    assert [await own_store.ahead(id) for id in expected] == list(range(9))
    assert [claim.id for claim in await claimed(own_store, 4)] == expected[:4]
    assert [claim.id for claim in await claimed(own_store, 10)] == expected[4:]


async def test_ids_are_sorted_only_while_pages_are_read(
    server: Server, own_store: RedisStore, clock: FakeTicker
) -> None:
    """I14"""
    made = sorted(job.id for job in await filled(own_store, 2500))
    client: Any = server.client()
    ids = f"mita:{{{QUEUE}}}:ids"
    assert not client.exists(ids)
    page = await own_store.page(JobFilter(), None, 5)
    assert [job.id for job in page.jobs] == made[:-6:-1]
    assert client.zcard(ids) == 2500
    [new] = await filled(own_store, 1)
    assert all(
        await own_store.settle([Settlement(claim, DONE) for claim in await claimed(own_store, 100)])
    )
    assert client.zcard(ids) == 2401
    assert [job.id for job in (await own_store.page(JobFilter(), None, 1)).jobs] == [new.id]
    await clock.tick(LOOKING + 1)
    await own_store.prune(10, 10)
    assert not client.exists(ids)
    assert [job.id for job in (await own_store.page(JobFilter(), None, 1)).jobs] == [new.id]
    client.close()


async def test_a_clock_that_goes_back_does_not_change_the_order(server: Server) -> None:
    ahead, behind = FakeTicker(), FakeTicker()
    await ahead.tick(1000)
    first, second = (RedisStore(server.url, clock=each) for each in (ahead, behind))
    await first.open()
    await second.open()
    [late], [early] = jobs(1), jobs(1)
    await first.enqueue([late])
    await second.enqueue([early])
    assert [claim.id for claim in await claimed(first, 10)] == [early.id, late.id]
    await first.close()
    await second.close()


async def test_a_job_rescheduled_to_now_comes_after_the_jobs_before_it(
    own_store: RedisStore, clock: FakeTicker
) -> None:
    made = [job.id for job in await filled(own_store, 3)]
    await clock.tick(1)
    assert await own_store.amend(made[:1], RescheduleJob(NOW)) == [Answer.DONE]
    assert [claim.id for claim in await claimed(own_store, 3)] == [made[1], made[2], made[0]]
