"""Arrivals: jobs that wait until enough other jobs have told them how they ended."""

import asyncio

from msgspec.structs import replace

from mita.model.flow import Arrival
from mita.model.job import Claim, State
from mita.model.outcome import Answer, CancelJob, DeleteJob, RetryJob, Settlement, SignalJob
from mita.model.time import LATEST, NOW, When
from mita.ports.ids import new_id
from mita.ports.store import Can, Store
from mita.rules.durable import arrival_name

from . import notify
from .clocks import Ticker
from .given import (
    LONG,
    PAST_SOON,
    QUEUE,
    SOON,
    claim_one,
    claimed_ids,
    claims,
    done,
    fail,
    jobs,
    look,
    lost,
    needs,
    put,
    running,
    settled,
    state_of,
    succeed,
)

UNTIL_TOLD = When(at=LATEST)


def arrival(
    receiver: str, sender: str = "a", value: bytes = b"done", needs: int = 1, queue: str = QUEUE
) -> Arrival:
    """An arrival of this sender."""
    return Arrival(queue, receiver, sender, value, needs)


async def test_a_job_that_waits_for_others_does_not_start(store: Store) -> None:
    """However long it is claimed for, and whatever the clock says."""
    await put(store, when=UNTIL_TOLD)
    result = await store.claim([QUEUE], 10, LONG, "w1")
    assert result.claims == []


async def test_the_last_arrival_starts_the_job(store: Store, twin: Store) -> None:
    """Not the one before it."""
    id = await put(store, when=UNTIL_TOLD)
    assert await store.arrive([arrival(id, "a", needs=3)]) == [Answer.DONE]
    assert await twin.arrive([arrival(id, "b", needs=3)]) == [Answer.DONE]
    assert await claims(store) == []
    assert await store.arrive([arrival(id, "c", needs=3)]) == [Answer.DONE]
    assert await claimed_ids(store) == [id]


async def test_an_arrival_counts_once(store: Store, twin: Store) -> None:
    """A sender that tells it twice is one sender; its first value stays."""
    id = await put(store, when=UNTIL_TOLD)
    assert await store.arrive([arrival(id, "a", b"first", needs=2)]) == [Answer.DONE]
    assert await twin.arrive([arrival(id, "a", b"second", needs=2)]) == [Answer.TAKEN]
    assert await claims(store) == []
    assert await store.arrive([arrival(id, "b", needs=2)]) == [Answer.DONE]
    claim = await claim_one(store)
    assert await store.load_once(claim, arrival_name("a"), shared=False) == b"first"
    assert await store.arrive([arrival(id, "b", needs=2)]) == [Answer.TAKEN]


async def test_only_arrivals_start_a_job_that_waits_for_others(store: Store) -> None:
    """Signals and other values that it keeps do not count."""
    id = await put(store, when=UNTIL_TOLD)
    assert await store.amend([id], SignalJob("go", b"x")) == [Answer.DONE]
    assert await store.arrive([arrival(id, "a", needs=2)]) == [Answer.DONE]
    assert await claims(store) == []
    assert await store.arrive([arrival(id, "b", needs=2)]) == [Answer.DONE]
    assert await claimed_ids(store) == [id]


async def test_arrivals_of_one_call(store: Store) -> None:
    """Many senders and several receivers in one call, each with its own answer."""
    one, two = await put(store, when=UNTIL_TOLD), await put(store, when=UNTIL_TOLD)
    told = [
        arrival(one, "a", needs=2),
        arrival(two, "a", needs=3),
        arrival(one, "b", needs=2),
        arrival(new_id(), "a"),
    ]
    answers = await store.arrive(told)
    assert answers == [Answer.DONE, Answer.DONE, Answer.DONE, Answer.UNKNOWN]
    assert await claimed_ids(store) == [one]
    assert await store.arrive([]) == []


async def test_arrivals_at_the_same_time(store: Store, twin: Store) -> None:
    """Of many senders that tell one job at once, each counts, and the job starts once."""
    id = await put(store, when=UNTIL_TOLD)
    stores = [store, twin] * 5
    await asyncio.gather(
        *(one.arrive([arrival(id, f"s{n}", needs=10)]) for n, one in enumerate(stores))
    )
    assert await claimed_ids(store) == [id]
    assert len(await store.once_values(id)) == 10


async def test_an_arrival_at_another_queue(store: Store) -> None:
    """Sender and receiver need not be in one queue."""
    id = await put(store, queue="reports", when=UNTIL_TOLD)
    assert await store.arrive([arrival(id, queue="reports")]) == [Answer.DONE]
    assert await claimed_ids(store, queues=["reports"]) == [id]


async def test_an_arrival_at_a_job_that_has_succeeded_is_too_late(store: Store) -> None:
    """Nothing is stored, and the job stays as it is."""
    claim = await running(store)
    await settled(store, succeed(claim))
    assert await store.arrive([arrival(claim.id)]) == [Answer.TOO_LATE]
    assert await store.once_values(claim.id) == {}


async def test_an_arrival_at_a_running_job_is_kept(store: Store) -> None:
    """The run goes on, and can be settled."""
    claim = await running(store)
    assert await store.arrive([arrival(claim.id, value=b"x")]) == [Answer.DONE]
    assert await store.load_once(claim, arrival_name("a"), shared=False) == b"x"
    await settled(store, succeed(claim))
    assert await state_of(store, claim.id) is State.SUCCEEDED


async def test_a_job_that_waits_for_others_can_be_cancelled_and_brought_back(store: Store) -> None:
    """What it was told before and while it was cancelled stays with it, and it waits for the
    rest."""
    id = await put(store, when=UNTIL_TOLD)
    await store.arrive([arrival(id, "a", needs=3)])
    assert await store.amend([id], CancelJob(LONG)) == [Answer.DONE]
    assert await store.arrive([arrival(id, "b", needs=3)]) == [Answer.DONE]
    assert await store.arrive([arrival(id, "b", needs=3)]) == [Answer.TAKEN]
    assert await store.amend([id], RetryJob(UNTIL_TOLD)) == [Answer.DONE]
    assert await claims(store) == []
    assert (await look(store, id)).due == LATEST
    assert await store.arrive([arrival(id, "c", needs=3)]) == [Answer.DONE]
    assert await claimed_ids(store) == [id]


async def test_the_last_arrival_at_a_job_that_was_cancelled_does_not_start_it(store: Store) -> None:
    """It stays cancelled, with what it was told, and can be deleted."""
    id = await put(store, when=UNTIL_TOLD)
    await store.amend([id], CancelJob(LONG))
    assert await store.arrive([arrival(id, "a", b"x")]) == [Answer.DONE]
    assert await claims(store) == []
    assert await state_of(store, id) is State.CANCELLED
    assert await store.once_values(id) == {arrival_name("a"): b"x"}
    assert await store.amend([id], DeleteJob()) == [Answer.DONE]
    assert await store.find([id]) == [None]
    assert await store.once_values(id) == {}


async def test_a_job_that_was_cancelled_and_told_is_deleted_in_time(
    store: Store, clock: Ticker
) -> None:
    """What it is told does not keep it longer."""
    id = await put(store, when=UNTIL_TOLD)
    await store.amend([id], CancelJob(SOON))
    await store.arrive([arrival(id, "a")])
    await clock.tick(PAST_SOON)
    await store.prune(10, 1_000_000)
    assert await store.find([id]) == [None]


async def test_a_sender_that_comes_twice_in_one_call_counts_once(store: Store) -> None:
    """Its first value stays."""
    id = await put(store, when=UNTIL_TOLD)
    told = [arrival(id, "a", b"first", needs=2), arrival(id, "a", b"second", needs=2)]
    assert await store.arrive(told) == [Answer.DONE, Answer.TAKEN]
    assert await claims(store) == []
    assert await store.once_values(id) == {arrival_name("a"): b"first"}


async def test_values_of_two_senders_stay_apart(store: Store) -> None:
    """Each value is kept under the name of its sender."""
    one, two = await put(store, when=UNTIL_TOLD), await put(store, when=UNTIL_TOLD)
    await store.arrive(
        [arrival(one, "a", b"1a", 3), arrival(two, "a", b"2a", 3), arrival(one, "b", b"1b", 3)]
    )
    assert await store.once_values(one) == {arrival_name("a"): b"1a", arrival_name("b"): b"1b"}
    assert await store.once_values(two) == {arrival_name("a"): b"2a"}


async def test_arrivals_last_through_retries(store: Store) -> None:
    """A run that failed is retried with everything that it was told."""
    id = await put(store, when=UNTIL_TOLD)
    await store.arrive([arrival(id, "a", b"x")])
    claim = await claim_one(store)
    await settled(store, fail(claim))
    await store.amend([id], RetryJob(NOW))
    again = await claim_one(store)
    assert await store.load_once(again, arrival_name("a"), shared=False) == b"x"


async def test_the_last_arrival_notifies_the_workers_of_the_queue(
    store: Store, twin: Store
) -> None:
    """A worker that sleeps learns of the job that is due now."""
    id = await put(store, when=UNTIL_TOLD)
    while await twin.wait([QUEUE], 0.05):
        pass
    await store.arrive([arrival(id)])
    assert await twin.wait([QUEUE], notify.WAKE_UP_TIMEOUT_S) == frozenset({QUEUE})


async def test_a_job_that_was_told_waits_for_its_key(store: Store) -> None:
    """It is due, and still needs its key."""
    holder = await running(store, resource="account")
    id = await put(store, when=UNTIL_TOLD, resource="account")
    await store.arrive([arrival(id)])
    assert await claims(store) == []
    await settled(store, succeed(holder))
    assert await claimed_ids(store) == [id]


async def test_a_value_of_an_arrival_can_be_empty_or_binary(store: Store) -> None:
    """It comes back byte by byte."""
    id = await put(store, when=UNTIL_TOLD)
    await store.arrive([arrival(id, "a", b"", 2), arrival(id, "b", bytes(range(256)), 2)])
    assert await store.once_values(id) == {
        arrival_name("a"): b"",
        arrival_name("b"): bytes(range(256)),
    }


async def test_a_ready_job_among_many_that_is_told_still_starts(store: Store) -> None:
    """What a job is told does not take it out of its queue."""
    many = jobs(200)
    await store.enqueue(many)
    ids = [one.id for one in many]
    assert await store.amend([ids[5]], CancelJob(LONG)) == [Answer.DONE]
    assert await store.arrive([arrival(ids[1])]) == [Answer.DONE]
    assert set(await claimed_ids(store, limit=300)) == {*ids} - {ids[5]}


# ---------------------------------------------------------------- with a settlement


def telling(claim: Claim, *told: Arrival) -> Settlement:
    """A success that tells this."""
    ended = succeed(claim)
    return replace(ended, verdict=replace(ended.verdict, told=True), arrivals=told)


async def test_a_settlement_tells_what_it_has_to_tell(store: Store) -> None:
    """The job that is told is due at once, and claimed by the same call."""
    needs(store, Can.TELL_WITH_SETTLE)
    claim, id = await running(store), await put(store, when=UNTIL_TOLD)
    told = arrival(id, claim.id, b"x")
    turn = await store.settle_and_claim([telling(claim, told)], [QUEUE], 10, LONG, "w1")
    assert (turn.took, [one.id for one in turn.claims], list(turn.untold)) == ([True], [id], [])
    assert await store.once_values(id) == {arrival_name(claim.id): b"x"}


async def test_a_settlement_tells_without_a_claim(store: Store, twin: Store) -> None:
    """A call that claims nothing tells all the same, and wakes the workers of the queue."""
    needs(store, Can.TELL_WITH_SETTLE)
    claim, id = await running(store), await put(store, when=UNTIL_TOLD)
    while await twin.wait([QUEUE], 0.05):
        pass
    turn = await store.settle_and_claim([telling(claim, arrival(id))], [], 0, LONG, "w1")
    assert (turn.took, turn.claims) == ([True], [])
    assert await twin.wait([QUEUE], notify.WAKE_UP_TIMEOUT_S) == frozenset({QUEUE})
    assert await claimed_ids(store) == [id]


async def test_a_stale_settlement_tells_nothing(store: Store, clock: Ticker) -> None:
    """Another worker has the job, and tells others when its own run has succeeded."""
    needs(store, Can.TELL_WITH_SETTLE)
    stale, _ = await lost(store, clock)
    other, id = await running(store), await put(store, when=UNTIL_TOLD)
    batch = [telling(stale, arrival(id, "a", needs=2)), telling(other, arrival(id, "b", needs=2))]
    turn = await store.settle_and_claim(batch, [QUEUE], 10, LONG, "w1")
    assert (turn.took, turn.claims) == ([False, True], [])
    assert set(await store.once_values(id)) == {arrival_name("b")}


async def test_what_a_settlement_could_not_tell_is_returned(store: Store) -> None:
    """It was told before, or its receiver is gone or has succeeded."""
    needs(store, Can.TELL_WITH_SETTLE)
    ended, claim, id = await done(store), await running(store), await put(store, when=UNTIL_TOLD)
    await store.arrive([arrival(id, "a", b"first", needs=3)])
    told = [arrival(id, "a", b"second", needs=3), arrival(id, "b", needs=3)]
    told += [arrival(ended), arrival(new_id())]
    turn = await store.settle_and_claim([telling(claim, *told)], [QUEUE], 10, LONG, "w1")
    assert (turn.took, turn.claims) == ([True], [])
    untold = [(one.receiver, one.sender) for one in turn.untold]
    assert untold == [(one.receiver, one.sender) for one in (told[0], told[2], told[3])]
    assert (await store.once_values(id))[arrival_name("a")] == b"first"


async def test_a_success_that_is_told_with_its_settlement_stands_against_a_cancel(
    store: Store,
) -> None:
    """The dependants were told, so the job has succeeded."""
    needs(store, Can.TELL_WITH_SETTLE)
    claim, id = await running(store), await put(store, when=UNTIL_TOLD)
    assert await store.amend([claim.id], CancelJob(LONG)) == [Answer.ASKED]
    turn = await store.settle_and_claim([telling(claim, arrival(id))], [QUEUE], 10, LONG, "w1")
    assert (turn.took, [one.id for one in turn.claims]) == ([True], [id])
    assert await state_of(store, claim.id) is State.SUCCEEDED
