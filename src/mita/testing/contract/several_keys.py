"""Several keys: a job starts when all of its gates are open, and holds nothing while it waits."""

from mita.model.gate import Gate
from mita.model.job import State
from mita.model.outcome import CancelJob, RescheduleJob
from mita.model.time import HOUR, When
from mita.model.view import JobFilter
from mita.ports.store import Store

from .clocks import Ticker
from .given import (
    LONG,
    PAST,
    PAST_SOON,
    QUEUE,
    SHORT,
    SOON,
    claim_one,
    claimed_ids,
    claims,
    look,
    put,
    put_many,
    refuse,
    release,
    running,
    settled,
    state_of,
    succeed,
)

ACCOUNT = "account:42"
GPU = Gate("gpu", 1)


async def test_a_job_needs_all_of_its_keys(store: Store) -> None:
    """I5 key mutex: a job does not start while one of its keys is taken, whichever it is."""
    holder = await running(store, resource=ACCOUNT, gates=(GPU,))
    first = await put(store, resource=ACCOUNT)
    second = await put(store, resource="account:43", gates=(GPU,))
    assert await claimed_ids(store) == []
    assert (await look(store, first)).blocked_at == ACCOUNT
    assert (await look(store, second)).blocked_at == GPU.key
    await settled(store, succeed(holder))
    assert sorted(await claimed_ids(store)) == sorted([first, second])


async def test_a_job_that_waits_for_one_key_holds_no_other(store: Store) -> None:
    """No deadlock: a job that waits takes nothing, so its free keys can be used by other jobs."""
    await running(store, resource="x", gates=(GPU,))
    waits = await put(store, resource=ACCOUNT, gates=(GPU,))
    assert await claimed_ids(store) == []
    assert await state_of(store, waits) is State.BLOCKED
    other = await put(store, resource=ACCOUNT)
    assert await claimed_ids(store) == [other]
    shown = {view.key: view for view in await store.resources()}
    assert [holder.id for holder in shown[ACCOUNT].holders] == [other]
    assert (shown[GPU.key].waiting, shown[ACCOUNT].waiting) == (1, 0)


async def test_keys_in_opposite_order_cannot_block_each_other(store: Store) -> None:
    """No deadlock: jobs that name two keys in opposite orders all run, one after the other."""
    ids = [await put(store, resource="a", gates=(Gate("b", 1),)) for _ in range(3)]
    ids += [await put(store, resource="b", gates=(Gate("a", 1),)) for _ in range(3)]
    done = []
    for _ in ids:
        [claim] = await claims(store)
        done.append(claim.id)
        await settled(store, succeed(claim))
    assert sorted(done) == sorted(ids)


async def test_each_key_has_its_own_limit(store: Store) -> None:
    """At most `limit` jobs of each key run at once."""
    for n in range(5):
        await put(store, resource=f"account:{n}", gates=(Gate("gpu", 3),))
    assert len(await claims(store)) == 3
    assert await claims(store) == []


async def test_a_woken_job_that_meets_another_taken_key_waits_there(store: Store) -> None:
    """A job that was woken tries all of its keys again, and waits at the first that is taken."""
    first = await running(store, resource=ACCOUNT)
    second = await running(store, resource="x", gates=(GPU,))
    id = await put(store, resource=ACCOUNT, gates=(GPU,))
    assert await claimed_ids(store) == []
    assert (await look(store, id)).blocked_at == ACCOUNT
    await settled(store, succeed(first))
    assert await claimed_ids(store) == []
    assert (await look(store, id)).blocked_at == GPU.key
    await settled(store, succeed(second))
    claim = await claim_one(store)
    assert (claim.id, claim.gates) == (id, (GPU,))
    assert (await look(store, id)).blocked_at is None


async def test_every_end_frees_all_keys(store: Store) -> None:
    """I5 key mutex, I12 self-heal: a job that goes back to the queue or waits frees its keys."""
    claim = await running(store, resource=ACCOUNT, gates=(GPU,))
    waits = await put(store, resource="x", gates=(GPU,), priority=9)
    assert await claimed_ids(store) == []
    await settled(store, release(claim))
    assert await claimed_ids(store, 1) == [waits]


async def test_an_unavailable_resource_holds_the_first_key_only(store: Store) -> None:
    """A run that finds its resource unavailable puts its first key on hold and frees the others."""
    claim = await running(store, resource=ACCOUNT, gates=(GPU,))
    other = await put(store, resource="x", gates=(GPU,))
    assert await claimed_ids(store) == []
    await settled(store, refuse(claim, LONG))
    assert (await look(store, claim.id)).blocked_at == ACCOUNT
    assert await claimed_ids(store) == [other]


async def test_a_lost_worker_keeps_the_keys_until_its_job_ends(store: Store, clock: Ticker) -> None:
    """I5 key mutex: a job that was taken over still has its keys; its end frees them."""
    await running(store, lease=SHORT, resource=ACCOUNT, gates=(GPU,))
    waits = await put(store, resource="x", gates=(GPU,))
    assert await claimed_ids(store) == []
    await clock.tick(PAST)
    [heir] = await store.reap(10, LONG, "heir")
    assert heir.gates == (GPU,)
    assert await claimed_ids(store) == []
    await settled(store, succeed(heir))
    assert await claimed_ids(store) == [waits]


async def test_a_hold_on_a_further_key_counts(store: Store, clock: Ticker) -> None:
    """A hold on any key of a job keeps it from starting until the hold ends."""
    await store.hold([QUEUE], GPU.key, When(SOON))
    id = await put(store, resource=ACCOUNT, gates=(GPU,))
    assert await claimed_ids(store) == []
    await clock.tick(PAST_SOON)
    assert await claimed_ids(store) == [id]


async def test_a_cancelled_waiter_is_not_woken(store: Store) -> None:
    """A job that was cancelled while it waited for a further key takes no place of the others."""
    holder = await running(store, resource="x", gates=(GPU,))
    first, second = await put_many(store, 2, resource="y", limit=5, gates=(GPU,))
    assert await claimed_ids(store) == []
    await store.amend([first], CancelJob(keep=HOUR))
    await settled(store, succeed(holder))
    assert await claimed_ids(store) == [second]


async def test_a_filter_finds_a_job_by_any_of_its_keys(store: Store) -> None:
    """`page` matches a key wherever a job has it."""
    id = await put(store, resource=ACCOUNT, gates=(GPU,))
    await put(store, resource="else")
    for key in (ACCOUNT, GPU.key):
        page = await store.page(JobFilter(resource=key), None, 10)
        assert [job.id for job in page.jobs] == [id]


async def test_a_key_that_is_named_twice_is_one_condition(store: Store) -> None:
    """A resource key that is also a gate has the smaller limit, and the rate."""
    await put_many(store, 4, resource="a", limit=3, gates=(Gate("a", 2),))
    assert len(await claims(store)) == 2
    await put_many(store, 4, resource="b", limit=3, gates=(Gate("b", None, LONG * 1000, 1),))
    assert len(await claims(store)) == 1


async def test_only_a_blocked_job_names_the_key_that_it_waits_for(store: Store) -> None:
    """A job that is rescheduled or cancelled while it waits does not wait for the key any more."""
    await running(store, resource=ACCOUNT)
    moved, ended = await put_many(store, 2, resource=ACCOUNT)
    assert await claimed_ids(store) == []
    await store.amend([moved], RescheduleJob(When(LONG)))
    await store.amend([ended], CancelJob(keep=HOUR))
    assert [(await look(store, id)).blocked_at for id in (moved, ended)] == [None, None]
