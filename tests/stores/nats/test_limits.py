"""Limits: what is special about rates, limited queues and fair shares on this store."""

import asyncio
from collections import Counter as Counters
from collections.abc import Awaitable, Callable, Sequence
from typing import TypeAlias

import pytest
from msgspec.structs import replace

from mita.model.gate import Gate, StoredLimit
from mita.model.job import State
from mita.model.outcome import CancelJob
from mita.stores.nats import NatsStore, claim, control
from mita.stores.nats.client.messages import OutMessage
from mita.stores.nats.codec import MOST_LANES, QueueRecord
from mita.stores.nats.stream import consumers, keys, partition, queue_use
from mita.stores.nats.stream.decode import decode_lanes
from mita.stores.nats.stream.slots import WAKE_SLOT
from mita.stores.nats.stream.subjects import RecordKind
from mita.stores.nats.stream.transaction import StreamTransaction, transact
from mita.stores.nats.tickets import planned_wakes, take_keyed, wakes
from mita.stores.nats.tickets.claim_call import ClaimCall
from mita.stores.nats.tickets.planned_wakes import WakePlan
from mita.testing.contract.given import (
    LONG,
    PAST,
    QUEUE,
    SHORT,
    SOON,
    claimed_ids,
    claims,
    jobs,
    look,
    put,
    put_many,
    settled,
    succeed,
)
from tests.waiting import until

KEY = "host:a"
Act: TypeAlias = Callable[[], Awaitable[None]]
FAST = (Gate(KEY, None, SHORT * 1000, 1),)
SLOW = (Gate(KEY, None, LONG * 1000, 1),)


async def stored(store: NatsStore, kind: RecordKind) -> list[str]:
    found = await store.context.reader.all(store.context.subjects.all(kind))
    return [message.subject for message in found if message.body]


# ---------------------------------------------------------------- rates


async def test_a_key_has_one_wake_ticket_however_many_jobs_wait(store: NatsStore) -> None:
    """A claim looks neither at the keys nor at the jobs that wait."""
    await store.enqueue(jobs(300, gates=SLOW))
    found = 0
    while turn := (await store.claim([QUEUE], 100, LONG, "w")).busy:
        found += len(turn)
    assert found == 299
    assert len(await stored(store, RecordKind.WAKE)) == 1
    assert len(await stored(store, RecordKind.WAITER)) == 299


@pytest.mark.parametrize("gates", [FAST, SLOW], ids=["fast", "slow"])
async def test_a_worker_with_little_room_lets_many_jobs_wait_at_once(
    store: NatsStore, monkeypatch: pytest.MonkeyPatch, gates: tuple[Gate, ...]
) -> None:
    """Each batch takes the server milliseconds, and tokens are not given out meanwhile. So it is
    not one batch for every few jobs that a worker could have started."""
    written = Counters[str]()
    store_batch = store.context.wire.store_batch

    async def counted(messages: Sequence[OutMessage]) -> int:
        written["batches"] += 1
        return await store_batch(messages)

    monkeypatch.setattr(store.context.wire, "store_batch", counted)
    await store.enqueue(jobs(400, gates=gates))
    started = waiting = 0
    while started + waiting < 400:
        result = await store.claim([QUEUE], 2, LONG, "w")
        assert len(result.claims) <= 2
        started += sum(claim.busy == 0 for claim in result.claims)
        waiting += len(result.busy)
    assert waiting > 300
    assert written["batches"] < 120, "at most two jobs in each would be 200"


async def test_jobs_beside_a_long_line_start_in_claims_of_the_size_asked_for(
    store: NatsStore,
) -> None:
    """A claim that takes many tickets for the line gives back those that it has no room for."""
    await put_many(store, 60, gates=SLOW)
    plain = await put_many(store, 40)
    other = await put_many(store, 5, gates=(Gate("host:b", None, 1000, 100),))
    started: list[str] = []
    while len(started) < 46:
        found = (await store.claim([QUEUE], 3, LONG, "w")).claims
        assert len(found) <= 3
        started += [one.id for one in found]
    assert {*plain, *other} < set(started)
    assert await claimed_ids(store) == []


async def test_a_worker_without_room_hands_its_tokens_on(
    store: NatsStore, twin: NatsStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The tokens that it cannot use are used by another store, which is not told by the server."""
    monkeypatch.setattr(planned_wakes, "FORGOTTEN_MS", LONG)
    ids = await put_many(store, 40, gates=(Gate(KEY, None, 50_000, 10),))
    first_burst = await claimed_ids(store, 40)
    await asyncio.sleep(SHORT / 1000)  # several tokens come
    first = await until(lambda: claimed_ids(store, 1), "a token")
    [plan] = store.context.planned._plans.values()
    assert plan.maker == planned_wakes.ANY_STORE
    rest = await until(lambda: claimed_ids(twin), "the other tokens")
    assert len(rest) > 1
    assert {*first, *rest} <= {*ids} - {*first_burst}


async def test_a_store_that_was_too_late_for_a_wake_ticket_writes_nothing(
    store: NatsStore, twin: NatsStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Another store has opened the key and made the next wake ticket: to compete with it would slow
    both down."""
    monkeypatch.setattr(planned_wakes, "FORGOTTEN_MS", LONG)
    await put_many(store, 5, gates=(Gate(KEY, None, 200_000, 1),))
    assert len(await claimed_ids(store)) == 1
    await until(lambda: claimed_ids(store), "the next token")
    [plan] = store.context.planned._plans.values()
    monkeypatch.setattr(twin.context.clock, "now", lambda: plan.due - 1)

    async def refused(_: Sequence[OutMessage]) -> int:
        raise AssertionError("it wrote")

    monkeypatch.setattr(twin.context.wire, "store_batch", refused)
    monkeypatch.setattr(twin.context.wire, "store", refused)
    late = wakes.late_wakes([WakePlan(QUEUE, KEY, PAST, "another")], [])
    call = ClaimCall(twin.context, LONG, "w")
    assert await wakes.KeyOpening(call, {}, {QUEUE}, 10).open(late) == []


async def test_a_lost_wake_ticket_is_made_again(store: NatsStore) -> None:
    """I12 self-heal: the server lost the ticket, for example with a schedule that was written over
    while it fired."""
    ids = await put_many(store, 2, gates=FAST)
    assert len(await claimed_ids(store)) == 1
    subjects, reader = store.context.subjects, store.context.reader
    places = subjects.scheduled_wake, subjects.wake_ticket, subjects.near_wake_ticket
    for pattern in [place(QUEUE, KEY) for place in places]:
        for message in await reader.last([pattern]):
            await store.context.wire.api(
                f"STREAM.MSG.DELETE.{subjects.stream}", {"seq": message.seq}
            )

    async def act(tx: StreamTransaction) -> None:
        record = await keys.resource_key_record(tx, QUEUE, KEY)
        keys.put_resource_key(tx, replace(record, wake_at=tx.now - LONG))

    await transact(store.context, act)
    await asyncio.sleep(PAST / 1000)
    assert await claims(store) == []
    await store.reap(10, LONG, "w2")
    assert await until(lambda: claimed_ids(store), "the reap woke it") == [ids[1]]


async def test_the_server_wakes_a_worker_that_sleeps(store: NatsStore, twin: NatsStore) -> None:
    """A worker that knows nothing of the key hears of the token from the server."""
    await put_many(store, 2, gates=(Gate(KEY, None, SOON * 1000, 1),))
    assert len(await claims(store)) == 1
    await twin.wait([QUEUE], 0)
    assert QUEUE in await twin.wait([QUEUE], 30)
    assert await until(lambda: claimed_ids(twin), "it has its token")


async def overtaken(store: NatsStore, patch: pytest.MonkeyPatch, act: Act) -> None:
    """Have `act` happen before the next write of this store, after it has read everything."""
    commit, acts = StreamTransaction.commit, [act]

    async def act_and_commit(tx: StreamTransaction) -> bool:
        if tx.context is store.context and acts:
            await acts.pop()()
        return await commit(tx)

    patch.setattr(StreamTransaction, "commit", act_and_commit)


async def is_blocked(store: NatsStore, id: str) -> bool:
    return (await look(store, id)).state is State.BLOCKED


async def claim_until_blocked(store: NatsStore, id: str) -> None:
    async def claim() -> bool:
        assert id not in await claimed_ids(store)
        return await is_blocked(store, id)

    await until(claim, "the job waits for its token")


async def test_a_job_that_is_blocked_while_the_last_waiter_leaves_is_woken(
    store: NatsStore, twin: NatsStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    """To block a job does not write the record of its key. Meanwhile another store woke the last
    job there and wrote that no job waits."""
    gates = (Gate(KEY, None, PAST * 1000, 1),)
    await put_many(store, 2, gates=gates)
    assert len(await claims(store)) == 1
    late = await put(store, gates=gates)
    woken: list[str] = []

    async def wake_the_last() -> None:
        woken.extend(await until(lambda: claimed_ids(twin, 1), "the first has its token"))

    with monkeypatch.context() as patch:
        await overtaken(store, patch, wake_the_last)
        await claim_until_blocked(store, late)
    assert woken != [late]
    assert await until(lambda: claimed_ids(twin), "it was not forgotten") == [late]


async def test_a_job_that_is_blocked_while_a_key_is_closed_is_woken(
    store: NatsStore, twin: NatsStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The same, seen from the store that wakes the last job: one more is blocked before it writes
    that no job waits."""
    gates = (Gate(KEY, None, PAST * 1000, 1),)
    await put_many(store, 2, gates=gates)
    assert len(await claims(store)) == 1
    late: list[str] = []

    async def block_one_more() -> None:
        late.append(await put(store, gates=gates))
        await claim_until_blocked(store, late[0])

    with monkeypatch.context() as patch:
        await overtaken(twin, patch, block_one_more)
        [first] = await until(lambda: claimed_ids(twin, 1), "the first has its token")
    assert [first] != late
    assert await until(lambda: claimed_ids(twin), "it was not forgotten") == late


async def test_a_store_that_dies_before_it_looks_again_forgets_no_job(
    store: NatsStore, twin: NatsStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The ticket of the job that it blocked goes to another store, which looks."""
    gates = (Gate(KEY, None, PAST * 1000, 1),)
    await put_many(store, 2, gates=gates)
    assert len(await claims(store)) == 1
    late = await put(store, gates=gates)

    async def wake_the_last() -> None:
        await until(lambda: claimed_ids(twin, 1), "the first has its token")

    async def die(*_: object) -> None:
        raise RuntimeError("killed")

    with monkeypatch.context() as patch:
        patch.setattr(take_keyed, "check_blocked", die)
        await overtaken(store, patch, wake_the_last)
        with pytest.raises(RuntimeError, match="killed"):
            await store.claim([QUEUE], 10, LONG, "w")
    assert await is_blocked(store, late)
    assert await until(lambda: claimed_ids(twin), "it was not forgotten") == [late]


async def test_a_wake_ticket_of_a_store_that_died_is_taken_by_another(
    store: NatsStore, twin: NatsStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    """I12: the store that had made the ticket for itself died with it. Others know its time, and
    take it before the server delivers it again."""
    monkeypatch.setattr(consumers, "WAKE_ACK_WAIT_S", LONG)
    monkeypatch.setattr(planned_wakes, "FORGOTTEN_MS", LONG)
    ids = await put_many(store, 2, gates=(Gate(KEY, None, SHORT * 1000, 1),))
    assert len(await claims(store)) == 1

    async def die(*_: object) -> None:
        raise RuntimeError("killed")

    async def has_died() -> bool:
        try:
            await store.claim([QUEUE], 10, LONG, "w")
        except RuntimeError:
            return True
        return False

    with monkeypatch.context() as patch:
        patch.setattr(wakes.KeyOpening, "open", die)
        await until(has_died, "it has the ticket")
    assert await until(lambda: claimed_ids(twin), "the other took the ticket") == [ids[1]]


async def test_what_was_read_for_a_wake_ticket_and_has_changed_is_read_again(
    store: NatsStore, twin: NatsStore
) -> None:
    """The store reads the next waiter in advance; then that job is cancelled."""
    ids = await put_many(store, 4, gates=FAST)
    assert await claimed_ids(store) == ids[:1]
    assert await until(lambda: claimed_ids(store), "the next token") == ids[1:2]
    reading = [task for task, _ in store.context.prepared._reads.values()]
    assert len(reading) == 1
    await asyncio.wait(reading)
    await twin.amend([ids[2]], CancelJob(LONG))
    assert await until(lambda: claimed_ids(store), "the next token") == ids[3:]


async def test_an_idle_rate_leaves_no_record(store: NatsStore) -> None:
    """The server removes the record of a key when its rate is full again."""
    await store.enqueue([replace(one, gates=(Gate(one.id, None, 1000, 1),)) for one in jobs(50)])
    held = await claims(store, 50)
    assert len(held) == 50
    await settled(store, *map(succeed, held))

    async def gone() -> bool:
        return await stored(store, RecordKind.RESOURCE_KEY) == []

    await until(gone, "all of them are idle")


async def test_a_woken_job_of_a_higher_priority_goes_first(store: NatsStore) -> None:
    """A claim starts woken jobs itself only in a queue where no other job can be before them."""
    await put_many(store, 2, gates=FAST, priority=3)
    assert len(await claims(store)) == 1
    high = await put(store, priority=9)
    await asyncio.sleep(PAST / 1000)
    assert await claimed_ids(store, 1) == [high]


async def test_an_unreadable_key_gives_no_token_too_many(store: NatsStore) -> None:
    """What cannot be read is rebuilt from the jobs; its rate starts without a token."""
    await put_many(store, 3, gates=SLOW)
    assert len(await claims(store)) == 1

    async def act(tx: StreamTransaction) -> None:
        subject = tx.context.subjects.resource_key(QUEUE, KEY)
        await tx.read([subject])
        tx.put(subject, b"\xc1")

    await transact(store.context, act)
    await put(store, gates=SLOW)
    assert await claims(store) == []
    [view] = await store.resources()
    assert (view.waiting, len(view.holders)) == (3, 1)


async def test_a_limit_of_a_key_that_has_only_a_rate_counts_what_runs(store: NatsStore) -> None:
    """The record of such a key does not name its running jobs, so `limit` counts them."""
    gates = (Gate(KEY, None, 1, 100),)
    await put_many(store, 3, gates=gates)
    held = await claims(store)
    assert len(held) == 3
    await store.limit([QUEUE], KEY, StoredLimit(concurrency=3))
    id = await put(store, gates=gates)
    assert await claims(store) == []
    await settled(store, succeed(held[0]))
    assert await claimed_ids(store) == [id]


# ---------------------------------------------------------------- limited queues


async def test_a_claim_under_way_starts_nothing_past_a_new_limit(
    store: NatsStore, twin: NatsStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Another store limits the queue after a claim has read that it has no limit."""
    await put_many(store, 3)
    assert len(await claims(store, 1)) == 1
    read = claim._Claiming._unpaused
    limiting: list[asyncio.Future[None]] = []

    async def read_and_be_overtaken(claiming: claim._Claiming) -> list[QueueRecord]:
        found = await read(claiming)
        limit = twin.limit([QUEUE], None, StoredLimit(concurrency=1))
        limiting.append(asyncio.ensure_future(limit))
        await until(lambda: _is_paused(twin), "the consumers stand still")
        return found

    with monkeypatch.context() as patch:
        patch.setattr(claim._Claiming, "_unpaused", read_and_be_overtaken)
        patch.setattr(claim._Claiming, "_pull_ahead", _nothing)
        assert await claims(store) == []
    await limiting[0]
    assert await claims(store) == []
    assert control.LIMIT_BARRIER_S > claim.UNPAUSED_BELIEVED_S
    assert control.CONSUMER_PAUSE_MS > 1000 * control.DELIVERED_WAIT_S


async def _nothing(_: claim._Claiming) -> dict[tuple[str, int], object]:
    return {}


async def _is_paused(store: NatsStore) -> bool:
    subjects = store.context.subjects
    info = await store.context.wire.api(
        f"CONSUMER.INFO.{subjects.stream}.{subjects.consumer(QUEUE, 5)}"
    )
    return bool(info.get("paused"))


async def test_a_place_that_a_store_did_not_give_back_is_found(
    store: NatsStore, twin: NatsStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    """I12: a store that does not know of the limit settles its job; the next claim of the full
    queue, or a reap, corrects the count."""
    monkeypatch.setattr(control, "LIMIT_BARRIER_S", 0.05)
    await put_many(store, 3)
    held = await claims(store, 1)
    await twin.limit([QUEUE], None, StoredLimit(concurrency=1))
    assert store.context.limited == set()
    await settled(store, *map(succeed, held))
    [second] = await until(lambda: claims(twin), "its place is free")
    twin.context.limited.clear()
    await settled(twin, succeed(second))
    await store.reap(10, LONG, "w2")
    assert len(await claims(store)) == 1


async def test_a_limit_that_was_not_finished_is_counted_by_a_reap(
    store: NatsStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    """I12: the process that set the limit died before it had counted the running jobs. Until then
    nothing starts."""
    monkeypatch.setattr(queue_use, "UNCOUNTED_MS", -1)
    await put_many(store, 3)
    assert len(await claims(store, 1)) == 1
    await transact(
        store.context, lambda tx: control._put_limit(tx, QUEUE, StoredLimit(concurrency=2))
    )
    store.context.claim_memory._recounted[QUEUE] = 2**50
    assert await claims(store) == []
    await store.reap(10, LONG, "w2")
    assert len(await claims(store)) == 1


async def test_a_limit_with_an_unreadable_count_still_holds(store: NatsStore) -> None:
    """The running jobs are counted again from the claim lists."""
    await store.limit([QUEUE], None, StoredLimit(concurrency=2))
    await put_many(store, 3)
    assert len(await claims(store, 1)) == 1

    async def act(tx: StreamTransaction) -> None:
        subject = tx.context.subjects.queue_use(QUEUE)
        found = list(await tx.body(subject))
        assert found
        tx.put(subject, b"\x93\xa4mail\x93\x02\x00\x01\xa7garbage")

    await transact(store.context, act)
    assert len(await claims(store)) == 1
    assert await claims(store) == []


async def test_the_doctor_names_limits(store: NatsStore) -> None:
    await store.limit([QUEUE], None, StoredLimit(concurrency=2))
    await store.limit([QUEUE], KEY, StoredLimit(concurrency=0))
    [found] = [one.found for one in await store.doctor() if one.what == "limits"]
    assert found == f"queue {QUEUE}: 2 at once; key {KEY} of {QUEUE}: stopped"


# ---------------------------------------------------------------- fair shares


async def test_each_claim_shares_its_starts_between_groups(store: NatsStore) -> None:
    """The bound of this store: with up to `MOST_LANES` groups, a claim of n jobs gives each group
    that has jobs n divided by the number of groups, rounded down."""
    await store.enqueue(jobs(300, fair="big"))
    for n in range(20):
        await store.enqueue(jobs(5, fair=f"small{n}"))
    found = Counters(one.fair for one in await claims(store, 63))
    assert found["big"] <= 5
    assert all(found[f"small{n}"] >= 2 for n in range(20)), found
    assert found.total() == 63


async def test_weights_count_over_many_claims(store: NatsStore) -> None:
    """A group with weight 3 gets about three starts for each start of a group with weight 1."""
    await store.enqueue(jobs(60, fair="heavy", weight=3000))
    await store.enqueue(jobs(60, fair="light"))
    found = Counters[str | None]()
    for _ in range(10):
        found.update(one.fair for one in await claims(store, 4))
    assert 26 <= found["heavy"] <= 32, found


async def test_more_groups_than_lanes_all_start(store: NatsStore, twin: NatsStore) -> None:
    """Groups that find no lane of their own join the shortest; the map of groups stays small."""
    names = [f"g{n}" for n in range(MOST_LANES + 20)]
    await store.enqueue([replace(one, fair=name) for name in names for one in jobs(2)])
    found: list[str | None] = []
    while batch := await claims(twin, 50):
        found += [one.fair for one in batch]
        await settled(twin, *map(succeed, batch))
    assert Counters(found) == dict.fromkeys(names, 2)
    store.context.lanes.clear()
    await store.enqueue(jobs(1, fair="late"))
    body = (await store.context.reader.last([store.context.subjects.lanes(QUEUE, 5)]))[0].body
    record = decode_lanes(body)
    assert record is not None
    assert set(record.groups) == {"late"}, "groups with nothing ready are forgotten"


async def test_a_queue_without_groups_has_one_consumer(store: NatsStore) -> None:
    """What is not used costs nothing."""
    await put(store)
    [record] = [await keys.queue_record(StreamTransaction(store.context), QUEUE)]
    assert record.priorities == (5,)
    await put(store, gates=FAST)
    record = await keys.queue_record(StreamTransaction(store.context), QUEUE)
    assert record.priorities == (5, WAKE_SLOT)


def test_items_that_share_a_key_are_in_one_part() -> None:
    items = ["a", "b", "ac", "d", "cb", "e"]
    parts = partition.partition(items, tuple, 3)
    assert [part for part in parts if "a" in part] == [["a", "b", "ac", "cb"]]
    assert sorted(one for part in parts for one in part) == sorted(items)


async def test_a_blocked_job_of_version_0_1_is_woken(store: NatsStore) -> None:
    """It has no `blocked_at`: it waits for its resource key."""
    held = await put(store, resource="k")
    [running] = await claims(store)
    id = await put(store, resource="k")
    assert await claims(store) == []

    async def act(tx: StreamTransaction) -> None:
        located = await tx.job(id)
        assert located.record is not None
        tx.write(located, replace(located.record, blocked_at=None))

    await transact(store.context, act)
    assert (await look(store, id)).blocked_at == "k"
    assert (await look(store, held)).state is State.RUNNING
    await settled(store, succeed(running))
    assert await claimed_ids(store) == [id]
