"""Signals: values that come from outside, before the job waits for them, meanwhile or after."""

import asyncio
from typing import Any

from mita.model.job import Claim, State
from mita.model.outcome import (
    Answer,
    CancelJob,
    RetryJob,
    Settlement,
    SignalJob,
    TimelineKind,
    Verdict,
)
from mita.model.time import NOW, When
from mita.ports.ids import new_id
from mita.ports.store import OnceValue, Store
from mita.rules.durable import signal_name, wait_name

from .given import (
    LONG,
    QUEUE,
    claim_one,
    claimed_ids,
    claims,
    fail,
    jobs,
    look,
    put,
    retry,
    running,
    settled,
    state_of,
    succeed,
)

YES = SignalJob("approval", b"yes")


def wait_for(claim: Claim, name: str = "approval", wait: int = LONG) -> Settlement:
    """Settle a run whose handler waits for a signal."""
    verdict = Verdict(
        state=State.QUEUED,
        when=When(wait),
        waits=name,
        event=TimelineKind.WAITING,
        note=name,
    )
    return Settlement(claim, verdict)


async def begin_to_wait(store: Store, claim: Claim, name: str = "approval") -> None:
    """Store that the job waits, as a run does before it ends."""
    await store.store_once(OnceValue(claim=claim, name=wait_name(name), value=b""))


async def waiting(store: Store, name: str = "approval", **more: Any) -> Claim:
    """A job that waits for a signal. Returns the claim of its last run."""
    claim = await running(store, **more)
    await begin_to_wait(store, claim, name)
    await settled(store, wait_for(claim, name))
    return claim


async def value_of(store: Store, claim: Claim, name: str = "approval") -> bytes | None:
    """The value of a signal, as the handler reads it."""
    return await store.load_once(claim, signal_name(name), shared=False)


async def test_a_signal_wakes_the_job_that_waits_for_it(store: Store, twin: Store) -> None:
    """It is due at once, and its next run reads the value."""
    claim = await waiting(store)
    assert await claims(store) == []
    assert await twin.amend([claim.id], YES) == [Answer.DONE]
    again = await claim_one(store)
    assert again.id == claim.id
    assert await value_of(store, again) == b"yes"
    assert (again.attempts, again.reschedules) == (0, 0)


async def test_a_signal_that_comes_first_is_kept(store: Store) -> None:
    """A job that was signalled before its first run does not wait."""
    id = await put(store)
    assert await store.amend([id], YES) == [Answer.DONE]
    claim = await claim_one(store)
    await begin_to_wait(store, claim)
    await settled(store, wait_for(claim))
    assert await claimed_ids(store) == [id]


async def test_a_signal_while_the_handler_runs_is_kept(store: Store) -> None:
    """The wait that follows finds it, in the same act as the end of the run."""
    claim = await running(store)
    assert await store.amend([claim.id], YES) == [Answer.DONE]
    assert await state_of(store, claim.id) is State.RUNNING
    assert await value_of(store, claim) == b"yes"
    await begin_to_wait(store, claim)
    await settled(store, wait_for(claim))
    assert await claimed_ids(store) == [claim.id]


async def test_a_signal_does_not_take_a_run_away_from_its_worker(store: Store) -> None:
    """The claim stays valid: the run that was signalled can be settled."""
    claim = await running(store, lease=LONG)
    await store.amend([claim.id], YES)
    await settled(store, succeed(claim))
    assert await state_of(store, claim.id) is State.SUCCEEDED


async def test_another_signal_wakes_nobody(store: Store) -> None:
    """A signal of another name is kept, and the job waits on."""
    claim = await waiting(store)
    assert await store.amend([claim.id], SignalJob("other", b"no")) == [Answer.DONE]
    assert await claims(store) == []
    assert await store.amend([claim.id], YES) == [Answer.DONE]
    assert await claimed_ids(store) == [claim.id]


async def test_a_signal_does_not_wake_a_job_that_does_not_wait_for_it(store: Store) -> None:
    """A job that is scheduled for later stays scheduled."""
    id = await put(store, when=When(LONG))
    assert await store.amend([id], YES) == [Answer.DONE]
    assert await claims(store) == []


async def test_a_name_is_signalled_once(store: Store, twin: Store) -> None:
    """The first value stays; the second answer says so."""
    claim = await waiting(store)
    assert await store.amend([claim.id], YES) == [Answer.DONE]
    assert await twin.amend([claim.id], SignalJob("approval", b"no")) == [Answer.TAKEN]
    assert await value_of(store, await claim_one(store)) == b"yes"


async def test_of_two_signals_at_once_one_counts(store: Store, twin: Store) -> None:
    """I3 one outcome: of two writers at the same time one is told that it was too slow."""
    claim = await waiting(store)
    answers = await asyncio.gather(
        store.amend([claim.id], SignalJob("approval", b"a")),
        twin.amend([claim.id], SignalJob("approval", b"b")),
    )
    assert sorted(answer for [answer] in answers) == [Answer.DONE, Answer.TAKEN]
    winner = b"a" if answers[0] == [Answer.DONE] else b"b"
    assert await value_of(store, await claim_one(store)) == winner


async def test_a_signal_to_a_job_that_has_ended_is_too_late(store: Store) -> None:
    """Nothing is stored: neither for a job that ended, nor for one that does not exist."""
    done, gone = await running(store), new_id()
    await settled(store, succeed(done))
    assert await store.amend([done.id, gone], YES) == [Answer.TOO_LATE, Answer.UNKNOWN]
    assert await store.once_values(done.id) == {}


async def test_a_signal_lasts_through_retries(store: Store) -> None:
    """A run that fails after its signal, and a person who retries the job, lose nothing."""
    claim = await waiting(store)
    await store.amend([claim.id], YES)
    again = await claim_one(store)
    await settled(store, retry(again))
    again = await claim_one(store)
    assert await value_of(store, again) == b"yes"
    await settled(store, fail(again))
    assert await store.amend([claim.id], RetryJob(NOW)) == [Answer.DONE]
    assert await value_of(store, await claim_one(store)) == b"yes"


async def test_a_signal_is_in_the_timeline(store: Store) -> None:
    """The name is shown, the value is not."""
    claim = await waiting(store)
    await store.amend([claim.id], YES)
    lines = [(line.kind, line.note) for line in await store.timeline(claim.id)]
    assert lines == [(TimelineKind.WAITING, "approval"), (TimelineKind.SIGNALLED, "approval")]


async def test_many_jobs_are_signalled_in_one_call(store: Store) -> None:
    """Each job has its own signal and its own answer."""
    waits = [await waiting(store) for _ in range(5)]
    ids = [claim.id for claim in waits]
    assert await store.amend(ids, YES) == [Answer.DONE] * 5
    assert sorted(await claimed_ids(store)) == sorted(ids)


async def test_a_signal_at_a_busy_key_waits_for_the_key(store: Store) -> None:
    """The signalled job is due, and still needs its key."""
    claim = await waiting(store, resource="account")
    holder = await running(store, resource="account")
    await store.amend([claim.id], YES)
    assert await claims(store) == []
    await settled(store, succeed(holder))
    assert await claimed_ids(store) == [claim.id]


async def test_a_job_that_waits_can_be_cancelled(store: Store) -> None:
    """And a signal that comes after that is too late."""
    claim = await waiting(store)
    assert await store.amend([claim.id], CancelJob(LONG)) == [Answer.DONE]
    assert await store.amend([claim.id], YES) == [Answer.TOO_LATE]
    assert (await look(store, claim.id)).state is State.CANCELLED


async def test_a_signal_notifies_the_workers_of_the_queue(store: Store, twin: Store) -> None:
    """A worker that sleeps learns of the job that is due now."""
    claim = await waiting(store)
    while await twin.wait([QUEUE], 0.05):
        pass
    await store.amend([claim.id], YES)
    assert await twin.wait([QUEUE], LONG / 1000) == frozenset({QUEUE})


async def test_the_values_of_a_job_can_be_read(store: Store, twin: Store) -> None:
    """Steps and signals, by name; nothing for a job that does not exist."""
    claim = await running(store)
    assert await store.once_values(claim.id) == {}
    await store.store_once(OnceValue(claim=claim, name="charged", value=b"\x00one"))
    await store.store_once(OnceValue(claim=claim, name="mailed", value=b""))
    await store.amend([claim.id], YES)
    assert await twin.once_values(claim.id) == {
        "charged": b"\x00one",
        "mailed": b"",
        signal_name("approval"): b"yes",
    }
    assert await store.once_values(new_id()) == {}


async def test_a_ready_job_among_many_that_is_signalled_still_starts(store: Store) -> None:
    """A signal that comes first does not take the job out of its queue."""
    many = jobs(200)
    await store.enqueue(many)
    ids = [one.id for one in many]
    assert await store.amend([ids[5]], CancelJob(LONG)) == [Answer.DONE]
    assert await store.amend([ids[1]], YES) == [Answer.DONE]
    assert set(await claimed_ids(store, limit=300)) == {*ids} - {ids[5]}
