"""The keys of groups of failed jobs, and what a version without groups leaves behind."""

from mita.model.outcome import DeleteJob, RetryJob
from mita.model.time import HOUR, NOW
from mita.model.view import JobFilter
from mita.stores.redis import RedisStore
from mita.testing.contract.given import claims, dead, fail, put_many, running, settled, succeed

from .load import QUEUE
from .load import jobs as load_jobs

ADA, BO = "0123456789abcdef", "fedcba9876543210"


async def failed(store: RedisStore, group: str | None, **more: str) -> str:
    claim = await running(store, queue=QUEUE, resource=more.get("resource"))
    await settled(store, fail(claim, group=group))
    return claim.id


async def keys(store: RedisStore) -> set[str]:
    """The keys of groups that there are."""
    root = store.context.keys.queue(QUEUE)
    found = await store.context.connection.command("KEYS", f"{root.replace('{', '[{]')}:dead*")
    return {key.decode().removeprefix(root) for key in found}


async def counts(store: RedisStore, task: str | None = None) -> dict[str, int]:
    return {one.group: one.count for one in await store.dead_groups(None, task, 100)}


async def test_only_failed_jobs_have_keys_of_groups(store: RedisStore) -> None:
    """I14: a success leaves none, and the last job of a group takes them with it."""
    await put_many(store, 20, queue=QUEUE)
    await settled(store, *(succeed(claim) for claim in await claims(store, 20, queues=[QUEUE])))
    assert await keys(store) == set()
    ids = [await failed(store, ADA), await failed(store, BO), await failed(store, None)]
    assert await keys(store) == {":dead_groups", f":dead:{ADA}", f":dead:{BO}", ":dead:"}
    await store.amend(ids[:1], RetryJob(NOW))
    assert await keys(store) == {":dead_groups", f":dead:{BO}", ":dead:"}
    await store.amend(ids[1:], DeleteJob())
    assert await keys(store) == set()


async def test_the_live_part_of_a_job_that_did_not_fail_has_no_place_for_a_group(
    store: RedisStore,
) -> None:
    """So it takes no more room than before."""
    command, root = store.context.connection.command, store.context.keys.queue(QUEUE)
    claim = await running(store, queue=QUEUE)
    await settled(store, succeed(claim))
    before = await command("HGET", f"{root}:live", claim.id)
    after = await command("HGET", f"{root}:live", await failed(store, ADA))
    assert (before[:3], after[:3]) == (b"\xdc\x00\x13", b"\xdc\x00\x14")


async def as_an_older_version(store: RedisStore, id: str) -> None:
    """Write a failed job as a version without groups does: it is in no group."""
    command, root = store.context.connection.command, store.context.keys.queue(QUEUE)
    handles = await command("ZRANGE", f"{root}:dead:", 0, -1)
    [handle] = [one for one in handles if one.endswith(id.encode())]
    await command("ZREM", f"{root}:dead:", handle)


async def test_jobs_that_failed_in_a_version_without_groups_are_one_group(
    store: RedisStore,
) -> None:
    """They are found by the first call, also those that a worker of that version adds later."""
    ids = [await failed(store, None), await failed(store, None)]
    command, root = store.context.connection.command, store.context.keys.queue(QUEUE)
    await command("DEL", f"{root}:dead:", f"{root}:dead_groups")
    [group] = await store.dead_groups(None, None, 10)
    assert (group.group, group.count, group.sample) == ("", 2, ids[1])
    assert await counts(store, "send") == {"": 2}
    await failed(store, ADA)
    later = await failed(store, None)
    await as_an_older_version(store, later)
    assert await counts(store) == {"": 3, ADA: 1}
    page = await store.page(JobFilter(group=""), None, 10)
    assert [one.id for one in page.jobs] == [later, ids[1], ids[0]]
    await store.amend([*ids, later], RetryJob(NOW))
    assert await counts(store) == {ADA: 1}


async def test_a_retry_of_a_version_without_groups_is_noticed(store: RedisStore) -> None:
    """It takes a job out of the failed ones, and leaves it in its group."""
    ids = [await failed(store, ADA), await failed(store, ADA), await failed(store, BO)]
    plain = await dead(store, queue=QUEUE)
    command, root = store.context.connection.command, store.context.keys.queue(QUEUE)
    for handle in await command("ZRANGE", f"{root}:failed", 0, -1):
        if handle.endswith((ids[0].encode(), ids[2].encode())):
            await command("ZREM", f"{root}:failed", handle)
    assert await counts(store) == {ADA: 1, "": 1}
    assert await keys(store) == {":dead_groups", f":dead:{ADA}", ":dead:"}
    [ada] = [one for one in await store.dead_groups(None, None, 10) if one.group == ADA]
    assert (ada.sample, ada.hours[-1]) == (ids[1], 1)
    await store.amend([plain], RetryJob(NOW))
    assert await counts(store) == {ADA: 1}


async def test_many_groups_are_read_in_parts(store: RedisStore) -> None:
    """Each call looks at a part of the groups, so that the server is never busy for long."""
    await put_many(store, 130, queue=QUEUE)
    for number, claim in enumerate(await claims(store, 130, queues=[QUEUE], lease=HOUR)):
        await settled(store, fail(claim, group=f"{number % 90:016x}"))
    found = await store.dead_groups(None, None, 60)
    assert [one.count for one in found] == [2] * 40 + [1] * 20
    assert all(one.hours[-1] == sum(one.hours) == one.count for one in found)
    assert len(await store.dead_groups(None, None, 1000)) == 90


async def test_pages_of_a_large_group_show_each_job_once(store: RedisStore) -> None:
    """Its newest jobs are found in the set of the group, in whatever order they have failed."""
    wanted: list[str] = []
    for _ in range(3):
        await store.enqueue(load_jobs(800))
        taken = await claims(store, 800, queues=[QUEUE], lease=HOUR)
        order = sorted(taken, key=lambda claim: claim.id[::-1])
        groups = [BO if number % 40 == 0 else ADA for number in range(800)]
        await settled(
            store, *(fail(claim, group=one) for claim, one in zip(order, groups, strict=True))
        )
        wanted += [claim.id for claim, one in zip(order, groups, strict=True) if one == ADA]
    assert len(wanted) == 2340
    met, after = list[str](), None
    for limit in (1, 300, 1000, 700, 1000):
        page = await store.page(JobFilter(group=ADA), after, limit)
        met += [one.id for one in page.jobs]
        if (after := page.after) is None:
            break
    assert met == sorted(wanted, reverse=True)
