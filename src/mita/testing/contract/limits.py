"""Arguments, results and values that are too large for the store: each is rejected by itself."""

import pytest
from msgspec.structs import replace

from mita.errors import Rejected, UsageError
from mita.model.flow import Arrival
from mita.model.job import State
from mita.model.outcome import (
    Answer,
    Counter,
    Progress,
    Settlement,
    SignalJob,
    TimelineKind,
    Verdict,
)
from mita.model.time import LATEST, NOW, When
from mita.ports.store import Can, OnceValue, Store
from mita.rules.durable import wait_name

from .given import (
    LONG,
    QUEUE,
    claim_one,
    claimed_ids,
    claims,
    fail,
    job,
    jobs,
    look,
    needs,
    put,
    retry,
    running,
    settled,
    state_of,
    succeed,
)

LARGEST_ROOM_BYTES = 2_000_000  # no test fills a store with a higher limit than this


def room_of(store: Store) -> int:
    """How many bytes a job may have. A store without such a limit skips the test."""
    if store.room is None or store.room > LARGEST_ROOM_BYTES:
        pytest.skip(f"{type(store).__name__} takes jobs of any size")
    return store.room


def too_large(store: Store) -> bytes:
    """Bytes that do not fit into a job."""
    return b"x" * (3 * room_of(store))


async def rejected(store: Store, *settlements: Settlement) -> Rejected:
    """Settle, which the store must reject. Returns the error."""
    with pytest.raises(Rejected) as caught:
        await store.settle(settlements)
    assert not caught.value.transient
    return caught.value


async def test_a_result_that_is_too_large_is_rejected_and_the_others_are_settled(
    tight: Store,
) -> None:
    """I12 self-heal, I15 never drop: one result that does not fit is rejected by itself, and its
    claim still holds."""
    one, two, three, four = [await running(tight) for _ in range(4)]
    error = await rejected(
        tight, succeed(one), succeed(two, too_large(tight)), fail(three), retry(four)
    )
    assert error.took == [True, False, True, True]
    assert list(error.rejected) == [1]
    states = [await state_of(tight, claim.id) for claim in (one, two, three, four)]
    assert states == [State.SUCCEEDED, State.RUNNING, State.FAILED, State.QUEUED]
    assert await tight.settle([fail(two, "TooLarge: no")]) == [True], "its claim still holds"


async def test_a_result_that_is_too_large_is_rejected_among_jobs_with_keys(tight: Store) -> None:
    """I5 key mutex, I12 self-heal: the keys of the other jobs are freed as usual."""
    given = [await running(tight, resource=f"r{n}", unique=f"u{n}") for n in range(3)]
    waiting = await put(tight, resource="r0")
    assert await claimed_ids(tight) == []
    large = too_large(tight)
    error = await rejected(
        tight, *[succeed(claim, large if n == 1 else b"") for n, claim in enumerate(given)]
    )
    assert (error.took, list(error.rejected)) == ([True, False, True], [1])
    assert await claimed_ids(tight) == [waiting], "the key of one that was settled is free"
    await settled(tight, fail(given[1]))


async def test_settle_and_claim_with_a_rejected_result_claims_nothing(tight: Store) -> None:
    """I1 no loss: the caller gets an error and would not learn what was claimed."""
    one, two = await running(tight), await running(tight)
    id = await put(tight)
    with pytest.raises(Rejected) as caught:
        await tight.settle_and_claim(
            [succeed(one, too_large(tight)), succeed(two)], [QUEUE], 10, LONG, "w1"
        )
    assert (caught.value.took, list(caught.value.rejected)) == ([False, True], [0])
    assert [await state_of(tight, each) for each in (one.id, two.id, id)] == [
        State.RUNNING,
        State.SUCCEEDED,
        State.QUEUED,
    ]
    turn = await tight.settle_and_claim([fail(one)], [QUEUE], 10, LONG, "w1")
    assert (turn.took, [claim.id for claim in turn.claims]) == ([True], [id])


async def test_results_that_fit_one_by_one_are_all_settled(tight: Store) -> None:
    """Results that are too large together for one message are settled in several."""
    given = [await running(tight) for _ in range(5)]
    part = b"x" * (room_of(tight) // 2)
    assert await tight.settle([succeed(claim, part) for claim in given]) == [True] * 5
    assert {(await look(tight, claim.id)).result for claim in given} == {part}


async def test_a_settlement_that_tells_too_much_is_rejected_as_a_whole(tight: Store) -> None:
    """Nothing of the call is written, so all of it can be told and settled in another way."""
    needs(tight, Can.TELL_WITH_SETTLE)
    one, other = await running(tight), await running(tight)
    id = await put(tight, when=When(at=LATEST))
    huge = Arrival(QUEUE, id, one.id, too_large(tight), 1)
    batch = [replace(succeed(one), arrivals=(huge,)), succeed(other)]
    with pytest.raises(Rejected):
        await tight.settle_and_claim(batch, [QUEUE], 10, LONG, "w1")
    assert await state_of(tight, one.id) is State.RUNNING
    assert await state_of(tight, other.id) is State.RUNNING
    assert await tight.once_values(id) == {}


async def test_settle_and_claim_with_large_results_claims_as_well(tight: Store) -> None:
    """The same call claims the next job."""
    given = [await running(tight) for _ in range(5)]
    id = await put(tight)
    part = b"x" * (room_of(tight) // 2)
    turn = await tight.settle_and_claim(
        [succeed(claim, part) for claim in given], [QUEUE], 10, LONG, "w1"
    )
    assert (turn.took, [claim.id for claim in turn.claims]) == ([True] * 5, [id])


async def test_arguments_that_are_too_large_are_refused_before_anything_is_stored(
    tight: Store,
) -> None:
    """I15 never drop: the error names the task, the size and what to do."""
    large = job(task="heavy", payload=b"x" * (room_of(tight) + 1))
    with pytest.raises(UsageError, match=r"heavy.*bytes.*store the data elsewhere"):
        await tight.enqueue([job(), large])
    assert sum(queue.ready for queue in await tight.queues()) == 0


async def test_the_largest_arguments_that_are_accepted_can_be_run(tight: Store) -> None:
    """I1 no loss, I15 never drop: what `enqueue` accepts can be claimed, retried and ended."""
    claim = await running(tight, payload=b"x" * room_of(tight))
    await settled(tight, retry(claim))
    claim = await claim_one(tight)
    assert claim.payload == b"x" * room_of(tight)
    await settled(tight, fail(claim))


async def test_large_jobs_that_fit_one_by_one_are_all_enqueued_and_claimed(
    tight: Store,
) -> None:
    """I1 no loss: jobs that are too large together for one message are enqueued and claimed in
    several."""
    given = jobs(6, payload=b"x" * (room_of(tight) // 2))
    assert [receipt.created for receipt in await tight.enqueue(given)] == [True] * 6
    found: list[str] = []
    while some := await claims(tight, 10):
        found += [claim.id for claim in some]
    assert sorted(found) == sorted(one.id for one in given)


async def test_a_once_value_that_is_too_large_is_rejected(tight: Store) -> None:
    """I15 never drop: nothing else of its job is touched."""
    claim = await running(tight)
    with pytest.raises(Rejected):
        await tight.store_once(OnceValue(claim=claim, name="large", value=too_large(tight)))
    assert await tight.load_once(claim, "large", shared=False) is None
    assert await tight.store_once(OnceValue(claim=claim, name="small", value=b"1")) == b"1"
    await settled(tight, succeed(claim))


async def test_a_signal_that_is_too_large_is_rejected(tight: Store) -> None:
    """Nothing of it is stored: neither its value nor a line in the timeline. A smaller one wakes
    the job."""
    claim = await running(tight)
    await tight.store_once(OnceValue(claim=claim, name=wait_name("go"), value=b""))
    waits = Verdict(state=State.QUEUED, when=When(LONG), waits="go")
    await settled(tight, Settlement(claim, waits))
    with pytest.raises(Rejected):
        await tight.amend([claim.id], SignalJob("go", too_large(tight)))
    assert list(await tight.once_values(claim.id)) == [wait_name("go")]
    assert await tight.timeline(claim.id) == []
    assert await claims(tight) == []
    assert await tight.amend([claim.id], SignalJob("go", b"1")) == [Answer.DONE]
    assert await claimed_ids(tight) == [claim.id]


async def test_a_job_with_a_long_timeline_can_always_be_settled(tight: Store) -> None:
    """I12 self-heal: the timeline is cut to what fits; what another run needs is never cut."""
    payload, value = b"x" * (room_of(tight) // 3), b"y" * (room_of(tight) // 3)
    id = await put(tight, payload=payload, resource="r")
    for n in range(12):
        claim = await claim_one(tight)
        await tight.store_once(OnceValue(claim=claim, name="made", value=value))
        assert await tight.progress([Progress(claim, b"z" * 1000)]) == [True]
        await settled(tight, Settlement(claim, _long(n)))
    claim = await claim_one(tight)
    assert (claim.payload, claim.attempts) == (payload, 12)
    assert await tight.load_once(claim, "made", shared=False) == value
    assert (await tight.timeline(id))[-1].kind == "retried"
    assert (await tight.extend([claim], LONG))[0] == "held"
    await settled(tight, fail(claim, "Boom: the end"))
    assert (await look(tight, id)).error == "Boom: the end"


def _long(n: int) -> Verdict:
    text = f"Boom: {n} " + "é" * 3000
    return Verdict(
        state=State.QUEUED,
        when=NOW,
        counts=Counter.ATTEMPTS,
        error=text,
        event=TimelineKind.RETRIED,
        note=text[:1000],
        failure=text[:700],
    )


async def test_an_arrival_that_is_too_large_is_rejected(tight: Store) -> None:
    """Nothing of it is stored, and the job waits for one that fits."""
    id = await put(tight, when=When(at=LATEST))
    with pytest.raises(Rejected) as caught:
        await tight.arrive([Arrival(QUEUE, id, "a", too_large(tight), 1)])
    assert not caught.value.transient
    assert await tight.once_values(id) == {}
    assert await tight.arrive([Arrival(QUEUE, id, "a", b"x", 1)]) == [Answer.DONE]
    assert await claimed_ids(tight) == [id]
