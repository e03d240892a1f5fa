"""Groups of failed jobs: a job has the group of its failure as long as it has failed, and groups
are counted."""

from typing import Any

from mita.model.job import State
from mita.model.outcome import CancelJob, DeleteJob, RescheduleJob, RetryJob
from mita.model.time import DAY, HOUR, NOW
from mita.model.view import JobFilter, StoredGroup
from mita.ports.store import Store

from .clocks import Ticker
from .given import (
    LONG,
    PAST,
    SHORT,
    claim_one,
    claims,
    dead,
    done,
    fail,
    look,
    put,
    put_many,
    running,
    settled,
    succeed,
)
from .given import retry as try_again

ADA, BO = "0123456789abcdef", "fedcba9876543210"


async def failed(store: Store, group: str | None, **more: Any) -> str:
    """A job that has failed in this group. Returns its id."""
    claim = await running(store, **more)
    await settled(store, fail(claim, group=group))
    return claim.id


async def groups(
    store: Store, queue: str | None = None, task: str | None = None, limit: int = 100
) -> list[StoredGroup]:
    """The groups of the store."""
    return await store.dead_groups(queue, task, limit)


async def counts(store: Store, queue: str | None = None, task: str | None = None) -> dict[str, int]:
    """The number of jobs of each group, in their order."""
    return {one.group: one.count for one in await groups(store, queue, task)}


async def found(store: Store, group: str, **more: Any) -> list[str]:
    """The ids of the jobs of a group, newest first."""
    return [one.id for one in (await store.page(JobFilter(group=group, **more), None, 100)).jobs]


async def test_without_failed_jobs_there_are_no_groups(store: Store) -> None:
    """Waiting, running and succeeded jobs have no group."""
    await done(store)
    claim = await running(store)
    await put(store)
    assert await groups(store) == []
    assert (await look(store, claim.id)).group is None
    assert await found(store, ADA) == await found(store, "") == []


async def test_a_failed_job_has_its_group(store: Store, twin: Store) -> None:
    """The group of the verdict is stored with the job, for every process."""
    id = await failed(store, ADA)
    assert (await look(twin, id)).group == ADA
    [one] = await groups(twin)
    assert (one.group, one.count, one.sample) == (ADA, 1, id)
    assert one.hours == (*[0] * 23, 1)


async def test_groups_are_counted_with_first_and_last(store: Store, clock: Ticker) -> None:
    """Groups come in the order of their size, with the times and a sample of each."""
    ids = [await failed(store, ADA)]
    other = await failed(store, BO, queue="post", task="pack")
    for _ in range(2):
        await clock.tick(10)
        ids.append(await failed(store, ADA))
    first, second = await groups(store)
    jobs = [await look(store, id) for id in ids]
    assert (first.group, first.count, first.sample) == (ADA, 3, ids[-1])
    assert (first.first, first.last) == (jobs[0].finished, jobs[-1].finished)
    assert (second.group, second.count, second.sample) == (BO, 1, other)
    assert second.first == second.last == (await look(store, other)).finished
    assert await groups(store, limit=1) == [first]


async def test_groups_of_a_queue_and_of_a_task(store: Store) -> None:
    """One group may be in several queues; it can be counted in one of them, or for one task."""
    await failed(store, ADA)
    await failed(store, ADA, queue="post")
    await failed(store, BO, queue="post", task="pack")
    await failed(store, None, queue="post", task="pack")
    await failed(store, None, queue="post")
    assert await counts(store) == {"": 2, ADA: 2, BO: 1}
    assert await counts(store, "mail") == {ADA: 1}
    assert await counts(store, "post") == {"": 2, ADA: 1, BO: 1}
    assert await counts(store, None, "pack") == {"": 1, BO: 1}
    assert await counts(store, "post", "send") == {"": 1, ADA: 1}
    assert await counts(store, "mail", "pack") == await counts(store, "nowhere") == {}


async def test_jobs_without_a_group(store: Store) -> None:
    """Failed jobs whose verdict has no group are counted together, under no name."""
    plain = [await dead(store), await dead(store)]
    await failed(store, ADA)
    await done(store)
    assert await counts(store) == {"": 2, ADA: 1}
    assert await found(store, "") == sorted(plain, reverse=True)
    assert (await look(store, plain[0])).group is None


async def test_hours_count_the_failures_of_a_day(store: Store, clock: Ticker) -> None:
    """The last number is of the hour that ends now; older failures only count in the sum."""
    if not clock.fake:
        return
    for _ in range(2):
        claim = await running(store)
        await settled(store, fail(claim, keep=3 * DAY, group=ADA))
    await clock.tick(HOUR)
    await failed(store, ADA, resource="r")
    [one] = await groups(store)
    assert one.hours == (*[0] * 22, 2, 1)
    await clock.tick(23 * HOUR - 1)
    [one] = await groups(store)
    assert one.hours == (2, 1, *[0] * 22)
    await clock.tick(1)
    [one] = await groups(store)
    assert one.hours == (1, *[0] * 23)
    await clock.tick(2 * HOUR)
    [one] = await groups(store)
    assert (one.count, one.hours) == (3, (0,) * 24)


async def test_a_retry_takes_a_job_out_of_its_group(store: Store) -> None:
    """I14: a retried job has no group until it fails again, and then that of its new failure."""
    ids = [await failed(store, ADA), await failed(store, ADA), await failed(store, None)]
    await store.amend([ids[0], ids[2]], RetryJob(NOW))
    assert await counts(store) == {ADA: 1}
    assert (await look(store, ids[0])).group is None
    both = await claims(store)
    assert {one.id for one in both} == {ids[0], ids[2]}
    assert await counts(store) == {ADA: 1}
    await settled(store, *(fail(claim, group=BO) for claim in both))
    assert await counts(store) == {BO: 2, ADA: 1}
    assert await found(store, BO) == sorted([ids[0], ids[2]], reverse=True)
    await store.amend([ids[0]], RescheduleJob(NOW))
    await settled(store, succeed(await claim_one(store)))
    assert await counts(store) == {ADA: 1, BO: 1}
    assert (await look(store, ids[0])).group is None


async def test_a_run_that_is_tried_again_has_no_group(store: Store) -> None:
    """Only the end of a job counts, not each failed attempt."""
    claim = await running(store)
    await settled(store, try_again(claim))
    again = await claim_one(store)
    assert (await groups(store), (await look(store, claim.id)).group) == ([], None)
    await settled(store, fail(again, group=ADA))
    assert await counts(store) == {ADA: 1}


async def test_a_job_that_was_cancelled_while_it_failed_has_no_group(store: Store) -> None:
    """What was asked comes first: the job is cancelled, and not among the failed ones."""
    kinds: list[dict[str, Any]] = [{}, {"resource": "r"}, {"unique": "u"}]
    for more in kinds:
        claim = await running(store, **more)
        await store.amend([claim.id], CancelJob(HOUR))
        await settled(store, fail(claim, group=ADA))
        assert (await look(store, claim.id)).state is State.CANCELLED
        assert (await look(store, claim.id)).group is None
    claim = await running(store)
    await store.amend([claim.id], RescheduleJob(NOW))
    await settled(store, fail(claim, group=ADA))
    assert (await look(store, claim.id)).state is State.QUEUED
    assert (await look(store, claim.id)).group is None
    assert await groups(store) == []


async def test_jobs_with_keys_have_groups_too(store: Store) -> None:
    """A job with a resource key or a unique key is counted like any other."""
    ids = [await failed(store, ADA, **more) for more in ({"resource": "r"}, {"unique": "u"}, {})]
    assert await counts(store) == {ADA: 3}
    assert await found(store, ADA, resource="r") == [ids[0]]


async def test_a_deleted_job_leaves_its_group(store: Store) -> None:
    """I14 bounded: a group ends with its last job."""
    ids = [await failed(store, ADA), await failed(store, ADA), await failed(store, None)]
    await store.amend([ids[1], ids[2]], DeleteJob())
    [one] = await groups(store)
    assert (one.group, one.count, one.sample) == (ADA, 1, ids[0])
    await store.amend([ids[0]], DeleteJob())
    assert await groups(store) == [] == await found(store, ADA)


async def test_a_pruned_job_leaves_its_group(store: Store, clock: Ticker) -> None:
    """I14 bounded: a job whose retention is over is counted in no group once it is pruned."""
    claim = await running(store)
    await settled(store, fail(claim, keep=SHORT, group=ADA))
    kept = await failed(store, ADA)
    await clock.tick(PAST)
    await store.prune(100, 10_000)
    [one] = await groups(store)
    assert (one.count, one.sample, one.first) == (1, kept, (await look(store, kept)).finished)


async def test_a_job_that_is_not_kept_is_in_no_group(store: Store) -> None:
    """A failed job that is deleted at once leaves no trace."""
    kinds: list[dict[str, Any]] = [{}, {"resource": "r"}]
    for more in kinds:
        claim = await running(store, **more)
        await settled(store, fail(claim, keep=0, group=ADA))
    assert await groups(store) == []


async def test_pages_of_a_group_show_each_job_once(store: Store) -> None:
    """Pages of a group follow each other without a gap, like other pages."""
    await put_many(store, 20)
    wanted: list[str] = []
    for number, claim in enumerate(await claims(store, 20)):
        group = (ADA, BO, None)[number % 3]
        await settled(store, fail(claim, group=group))
        wanted += [claim.id] if group == ADA else []
    met, after = list[str](), None
    for _ in range(20):
        page = await store.page(JobFilter(group=ADA), after, 2)
        met += [one.id for one in page.jobs]
        assert all(one.group == ADA for one in page.jobs)
        if (after := page.after) is None:
            break
    assert met == sorted(wanted, reverse=True)
    assert await found(store, ADA, state=State.CANCELLED) == []
    assert await found(store, ADA, task="pack") == []
    assert await found(store, ADA, error="Boom") == met


async def test_a_stale_failure_is_counted_in_no_group(store: Store, clock: Ticker) -> None:
    """I2: a settlement with a stale token changes no group."""
    stale = await running(store, lease=SHORT)
    await clock.tick(PAST)
    [heir] = await store.reap(10, LONG, "heir")
    assert await store.settle([fail(stale, group=ADA)]) == [False]
    assert await groups(store) == []
    await settled(store, fail(heir, group=BO))
    assert await counts(store) == {BO: 1}
