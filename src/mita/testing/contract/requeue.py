"""Settlements by which a job goes back to its queue: retry, reschedule, release."""

from msgspec.structs import asdict, replace

from mita.model.job import State
from mita.model.outcome import (
    Counter,
    Settlement,
    Verdict,
)
from mita.model.time import NOW, When
from mita.ports.store import Store

from .clocks import Ticker
from .given import (
    LONG,
    PAST,
    PAST_SOON,
    SHORT,
    SOON,
    claim_one,
    claimed_ids,
    exact,
    look,
    move,
    put,
    release,
    retry,
    running,
    settled,
    succeed,
)


async def test_a_retry_waits_and_counts_an_attempt(store: Store, clock: Ticker) -> None:
    """I6 attempts, I8 not early: a failed attempt is counted, and the job cannot be claimed before
    its delay is over."""
    claim = await running(store)
    await clock.tick(SHORT)
    await settled(store, retry(claim, wait=SOON, error="Boom"))
    after = await look(store, claim.id)
    assert (after.state, after.attempts, after.error) == (State.QUEUED, 1, "Boom")
    assert (after.worker, after.lease_until, after.finished) == (None, None, None)
    assert after.due >= claim.at + SHORT + SOON, (
        "the wait counts from the settling, on the store's clock"
    )
    assert await claimed_ids(store) == []
    await clock.tick(PAST_SOON)
    again = await claim_one(store)
    assert (again.id, again.attempts) == (claim.id, 1)


async def test_the_delay_of_a_retry_counts_from_its_settlement(store: Store, clock: Ticker) -> None:
    """I8 not early: the delay counts from the settlement on the clock of the store, however old the
    claim is."""
    claim = await running(store)
    await clock.tick(PAST)
    await settled(store, retry(claim, wait=SHORT))
    due = (await look(store, claim.id)).due
    assert due == claim.at + PAST + SHORT if exact(store, clock) else due >= claim.at + PAST + SHORT


async def test_a_handler_can_reschedule_its_job_to_a_point_in_time(store: Store) -> None:
    """I6 attempts, I8 not early: the job waits until exactly then; a reschedule is counted and no
    attempt."""
    claim = await running(store)
    at = claim.at + LONG
    await settled(store, move(claim, When(at=at)))
    after = await look(store, claim.id)
    assert (after.state, after.due) == (State.QUEUED, at)
    assert (after.reschedules, after.attempts, after.error) == (1, 0, None)
    assert await claimed_ids(store) == []


async def test_a_handler_that_reschedules_to_the_past_means_now(store: Store) -> None:
    """A time in the past becomes the time of the settlement."""
    claim = await running(store)
    await settled(store, move(claim, When(at=claim.at - LONG)))
    assert (await look(store, claim.id)).due >= claim.at
    assert await claimed_ids(store) == [claim.id]


async def test_each_thing_that_happens_has_its_own_counter(store: Store) -> None:
    """I6 attempts: attempts, reschedules, busy keys, interruptions and crashes are counted
    apart."""
    await put(store)
    expected = dict.fromkeys(Counter, 0)
    for n, counter in enumerate(Counter, start=1):
        for _ in range(n):
            claim = await claim_one(store)
            assert {name: asdict(claim)[name] for name in Counter} == expected, (
                "the claim tells it to the run"
            )
            await settled(store, Settlement(claim, Verdict(state=State.QUEUED, counts=counter)))
            expected[counter] += 1
    after = asdict(await look(store, (await claim_one(store)).id))
    assert {name: after[name] for name in Counter} == expected


async def test_a_released_job_is_as_it_was(store: Store) -> None:
    """I6 attempts: a claim that is given back leaves only the token and the start time."""
    id = await put(store)
    before = await look(store, id)
    claim = await claim_one(store)
    await settled(store, release(claim))
    after = await look(store, id)
    assert after == replace(before, token=claim.token, started=claim.at)
    assert await store.timeline(id) == []
    assert await claimed_ids(store) == [id]


async def test_the_last_error_stays_until_there_is_another(store: Store) -> None:
    """A job keeps the error of its last failed attempt until the next one fails."""
    claim = await running(store)
    await settled(store, retry(claim, error="first"))
    await settled(store, move(await claim_one(store)))
    assert (await look(store, claim.id)).error == "first"
    await settled(store, retry(await claim_one(store), error="second"))
    await settled(store, succeed(await claim_one(store)))
    after = await look(store, claim.id)
    assert (after.state, after.error) == (State.SUCCEEDED, "second")


async def test_a_job_of_an_unknown_task_has_the_time_since_when(
    store: Store, clock: Ticker
) -> None:
    """A job whose task no worker knows is marked with the time of the first such claim."""
    stranded = Verdict(state=State.QUEUED, when=NOW, stranded=True)
    claim = await running(store)
    await settled(store, Settlement(claim, stranded))
    since = (await look(store, claim.id)).stranded
    assert since is not None
    await clock.tick(SHORT)
    claim = await claim_one(store)
    assert claim.stranded == since
    await settled(store, Settlement(claim, stranded))
    assert (await look(store, claim.id)).stranded == since, "since the first time"
    await settled(store, retry(await claim_one(store)))
    assert (await look(store, claim.id)).stranded is None, "a worker knew the task"
