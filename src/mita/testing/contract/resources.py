"""Resource keys: at most `limit` jobs of a key run at once; the others wait, and that is no
failure."""

import asyncio
from collections.abc import Callable

from mita.model.job import Claim, State, WhenBusy
from mita.model.outcome import CancelJob, PrioritiseJob, Settlement, TimelineEntry
from mita.model.time import HOUR
from mita.model.view import Holder, ResourceView
from mita.ports.store import Can, Store

from .clocks import Ticker
from .given import (
    LONG,
    QUEUE,
    SHORT,
    claim_one,
    claimed_ids,
    claims,
    fail,
    jobs,
    look,
    move,
    needs,
    put,
    put_many,
    release,
    retry,
    running,
    settled,
    state_of,
    stop,
    succeed,
)

KEY = "account:42"


async def blocked(store: Store, **more: object) -> str:
    """A job that found its key taken and is blocked."""
    id = await put(store, **{"resource": KEY, **more})
    assert await claimed_ids(store) == []
    assert await state_of(store, id) is State.BLOCKED
    return id


async def test_a_claim_returns_the_jobs_that_met_a_busy_key(store: Store) -> None:
    """A claim lists the jobs whose key was taken, and whether the busy policy ended them."""
    await running(store, resource=KEY)
    waits = await put(store, resource=KEY)
    skips = await put(store, resource=KEY, when_busy=WhenBusy.SKIP)
    turn = await store.claim([QUEUE], 10, LONG, "w1")
    assert sorted((busy.id, busy.queue, busy.ended) for busy in turn.busy) == sorted(
        [(waits, QUEUE, False), (skips, QUEUE, True)]
    )
    assert not any(busy.at_rate for busy in turn.busy)
    assert {busy.task for busy in turn.busy} == {jobs(1)[0].task}
    assert not (await store.claim([QUEUE], 10, LONG, "w1")).busy


async def test_a_job_whose_key_is_taken_waits_and_counts_no_attempt(store: Store) -> None:
    """I5 key mutex, I6 attempts: a job whose key is taken becomes blocked; that counts as busy and
    not as an attempt."""
    await running(store, resource=KEY)
    id = await put(store, resource=KEY)
    before = await look(store, id)
    assert await claimed_ids(store) == []
    after = await look(store, id)
    assert (after.state, after.busy, after.attempts) == (State.BLOCKED, 1, 0)
    assert (after.due, after.token, after.worker) == (before.due, before.token, None)
    [line] = await store.timeline(id)
    assert line == TimelineEntry(line.at, "blocked", line.note)
    assert KEY in line.note


async def test_one_claim_never_returns_two_jobs_of_one_key(store: Store) -> None:
    """I5 key mutex: of several jobs with one key a claim returns one."""
    await put_many(store, 3, resource=KEY)
    assert len(await claims(store)) == 1
    assert await claims(store) == []


async def test_a_busy_key_does_not_hold_up_other_jobs(store: Store) -> None:
    """I9 no starvation: jobs of other keys, and jobs without one, are claimed past those that
    wait."""
    await running(store, resource=KEY)
    await store.enqueue(jobs(60, resource=KEY))
    other, free = await put(store, resource="account:43"), await put(store)
    assert sorted(await claimed_ids(store, 2)) == sorted([other, free])


async def test_a_key_with_many_waiting_jobs_does_not_hold_up_others(store: Store) -> None:
    """I9 no starvation: a store may look at a part of the waiting jobs in one claim, if it then
    says to come again at once."""
    await running(store, resource=KEY)
    await store.enqueue(jobs(1500, resource=KEY, priority=9))
    other = await put(store, priority=0)
    for _ in range(10):
        turn = await store.claim([QUEUE], 1, LONG, "w1")
        if turn.claims:
            break
        assert turn.again == 0
    assert [claim.id for claim in turn.claims] == [other]


async def test_one_key_in_two_queues_is_two_keys(store: Store) -> None:
    """Each queue has its own resource keys."""
    await running(store, resource=KEY)
    billing = await put(store, resource=KEY, queue="billing")
    assert await claimed_ids(store, queues=["billing"]) == [billing]


async def test_every_end_of_a_run_frees_the_key(store: Store) -> None:
    """I5 key mutex, I12 self-heal: success, failure, cancel, release, reschedule and retry all free
    the key and wake the next job."""
    endings: list[Callable[[Claim], Settlement]] = [succeed, fail, stop, release, move]
    endings += [lambda claim: retry(claim, wait=LONG), lambda claim: succeed(claim, keep=0)]
    for end in endings:
        claim = await running(store, resource=KEY, priority=5)
        waiting = await blocked(store, priority=6)
        await settled(store, end(claim))
        assert await state_of(store, waiting) is State.QUEUED
        [next_claim] = await claims(store, 1)
        assert next_claim.id == waiting
        await settled(store, succeed(next_claim))
        await store.amend([claim.id], CancelJob(keep=HOUR))


async def test_a_free_key_goes_to_the_first_waiting_job(store: Store) -> None:
    """Priority and then age decide which waiting job gets the key."""
    needs(store, Can.KEEP_EXACT_ORDER)
    holder = await running(store, resource=KEY)
    low, first, second, high = [await put(store, resource=KEY, priority=p) for p in (1, 5, 5, 9)]
    assert await claimed_ids(store) == []
    assert [await store.ahead(id) for id in (high, first, second, low)] == [0, 1, 2, 3]
    order = []
    for _ in range(4):
        await settled(store, succeed(holder))
        holder = await claim_one(store)
        order.append(holder.id)
    assert order == [high, first, second, low]


async def test_a_new_priority_counts_among_jobs_that_wait_for_a_key(store: Store) -> None:
    """A blocked job that gets a higher priority is woken first."""
    needs(store, Can.KEEP_EXACT_ORDER)
    holder = await running(store, resource=KEY)
    await blocked(store)
    second = await blocked(store)
    await store.amend([second], PrioritiseJob(9))
    await settled(store, succeed(holder))
    assert (await claim_one(store)).id == second


async def test_a_free_key_wakes_one_job_and_not_all(store: Store) -> None:
    """I14 bounded: a freed key makes one waiting job ready and leaves the others blocked."""
    holder = await running(store, resource=KEY)
    ids = await put_many(store, 4, resource=KEY)
    assert await claimed_ids(store) == []
    await settled(store, succeed(holder))
    states = [await state_of(store, id) for id in ids]
    assert states == [State.QUEUED, State.BLOCKED, State.BLOCKED, State.BLOCKED]


async def test_a_woken_job_is_as_it_was_before_it_waited(store: Store, clock: Ticker) -> None:
    """A job that waited for a key keeps its due time and counts one busy key."""
    holder = await running(store, resource=KEY)
    id = await put(store, resource=KEY)
    due = (await look(store, id)).due
    assert await claimed_ids(store) == []
    await clock.tick(SHORT)
    await settled(store, succeed(holder))
    after = await look(store, id)
    assert (after.state, after.due, after.busy) == (State.QUEUED, due, 1)
    assert [event.kind for event in await store.timeline(id)] == ["blocked"]


async def test_a_limit_of_two_lets_two_run(store: Store) -> None:
    """I5 key mutex: with limit 2 two jobs of one key run at once."""
    await put_many(store, 5, resource=KEY, limit=2)
    first, _ = await claims(store)
    assert await claims(store) == []
    await settled(store, succeed(first))
    assert len(await claims(store)) == 1
    assert [len(view.holders) for view in await store.resources(key=KEY)] == [2]


async def test_each_job_is_held_to_its_own_limit(store: Store) -> None:
    """I5 key mutex: if jobs of one key have different limits, each obeys its own."""
    await running(store, resource=KEY, limit=2)
    strict = await put(store, resource=KEY, limit=1, priority=9)
    lenient = await put(store, resource=KEY, limit=2)
    assert await claimed_ids(store) == [lenient]
    assert await state_of(store, strict) is State.BLOCKED


async def test_a_key_is_never_held_by_more_than_its_limit(store: Store, twin: Store) -> None:
    """I5 key mutex: two processes that claim at once never exceed the limit, and every job gets its
    turn."""
    ids = await put_many(store, 12, resource=KEY, limit=2)
    ended: list[str] = []
    for _ in range(12):
        turns = await asyncio.gather(
            *(handle.claim([QUEUE], 5, LONG, "w") for handle in (store, twin))
        )
        held = [claim for turn in turns for claim in turn.claims]
        assert len(held) <= 2
        await settled(store, *(succeed(claim) for claim in held))
        ended += [claim.id for claim in held]
    assert sorted(ended) == sorted(ids)


async def test_a_job_with_the_policy_skip_is_cancelled_if_its_key_is_taken(store: Store) -> None:
    """The busy policy `skip` cancels the job and gives the reason."""
    await running(store, resource=KEY)
    id = await put(store, resource=KEY, when_busy=WhenBusy.SKIP)
    assert await claimed_ids(store) == []
    after = await look(store, id)
    assert (after.state, after.busy, after.attempts) == (State.CANCELLED, 1, 0)
    assert after.finished is not None
    assert after.expires is not None
    assert after.expires > after.finished, "it can be looked at for a while"
    [line] = await store.timeline(id)
    assert line.kind == "skipped"
    assert KEY in line.note


async def test_a_job_with_the_policy_skip_runs_if_its_key_is_free(store: Store) -> None:
    """The busy policy matters only while the key is taken."""
    id = await put(store, resource=KEY, when_busy=WhenBusy.SKIP)
    assert await claimed_ids(store) == [id]


async def test_a_job_with_the_policy_replace_cancels_those_that_wait(store: Store) -> None:
    """The busy policy `replace` cancels the jobs that wait for the key, and no running one."""
    holder = await running(store, resource=KEY)
    old, older = await blocked(store), await blocked(store)
    elsewhere = await running(store, resource="other")
    new = await put(store, resource=KEY, when_busy=WhenBusy.REPLACE)
    turn = await store.claim([QUEUE], 10, LONG, "w1")
    assert not turn.claims
    assert sorted((busy.id, busy.ended, busy.replaced) for busy in turn.busy) == sorted(
        [(new, False, False), (old, True, True), (older, True, True)]
    )
    assert {(busy.task, busy.queue) for busy in turn.busy} == {(jobs(1)[0].task, QUEUE)}
    for id in (old, older):
        after = await look(store, id)
        assert (after.state, after.busy) == (State.CANCELLED, 1)
        last = (await store.timeline(id))[-1]
        assert last.kind == "replaced"
        assert new in last.note
    assert await state_of(store, new) is State.BLOCKED
    assert await state_of(store, elsewhere.id) is State.RUNNING
    await settled(store, succeed(holder))
    assert await claimed_ids(store) == [new]


async def test_the_newest_of_several_replacing_jobs_remains(store: Store) -> None:
    """Of several jobs with the policy `replace` the last one waits."""
    await running(store, resource=KEY)
    ids = await put_many(store, 3, resource=KEY, when_busy=WhenBusy.REPLACE)
    assert await claimed_ids(store) == []
    states = [await state_of(store, id) for id in ids]
    assert states == [State.CANCELLED, State.CANCELLED, State.BLOCKED]


async def test_a_resource_shows_its_holders_and_how_many_jobs_wait(store: Store) -> None:
    """`resources` lists each key with the jobs and workers that hold it and the number that
    wait."""
    first = await running(store, resource=KEY, limit=2, worker="w1")
    second = await running(store, resource=KEY, limit=2, worker="w2")
    await blocked(store, limit=2)
    await running(store, resource="account:1", queue="billing")
    [view] = await store.resources(QUEUE, KEY)
    holders = (Holder(first.id, "w1", first.at), Holder(second.id, "w2", second.at))
    assert sorted(view.holders, key=lambda holder: str(holder.worker)) == list(holders)
    assert (view.queue, view.key, view.waiting, view.held_until) == (QUEUE, KEY, 1, None)
    places = [(view.queue, view.key) for view in await store.resources()]
    assert places == [("billing", "account:1"), (QUEUE, KEY)]


async def test_a_key_without_holders_and_waiting_jobs_is_not_shown(store: Store) -> None:
    """`resources` leaves out keys that are free and that no job waits for."""
    claim = await running(store, resource=KEY)
    assert [view.key for view in await store.resources()] == [KEY]
    await settled(store, succeed(claim))
    assert await store.resources() == []
    await put(store, resource=KEY)
    assert await store.resources() == []
    assert await store.resources("nobody", "nothing") == []


async def test_a_key_that_jobs_only_wait_for_is_shown(store: Store) -> None:
    """`resources` lists a key as long as a job waits for it."""
    await running(store, resource=KEY)
    id = await blocked(store)
    [view] = await store.resources(key=KEY)
    assert view == ResourceView(queue=QUEUE, key=KEY, holders=view.holders, waiting=1)
    await store.amend([id], CancelJob(keep=0))
    assert [view.waiting for view in await store.resources(key=KEY)] == [0]
