"""Traps in which other systems were caught, each as a test: flows that wait for ever, callbacks
that run twice or never. The docstrings name the reports."""

from collections.abc import Callable, Sequence
from typing import Any

import pytest

from mita import JobCancelled, Mita, Retry, UsageError
from mita.client.flow_run import FlowRun
from mita.model.flow import Arrival
from mita.model.outcome import Answer, CancelJob, DeleteJob, RetryJob
from mita.model.time import LATEST, When
from mita.ports.store import Store
from mita.rules.flow import FLOW_TASK, step_id
from mita.testing import lab
from mita.testing.laboratory import Lab

from .test_flows import Bench

LONG_S = 3 * 3600  # long enough for every patrol of a flow


async def ends(run: FlowRun) -> list[str]:
    """How the flow and its steps ended; 'gone' for a step that was deleted."""
    record = await run.get()
    assert record is not None
    return [
        record.state.value,
        *(step.state.value if step.state else "gone" for step in record.steps),
    ]


async def fan_in(it: Bench) -> FlowRun:
    """Two members, of which one fails at once if it is broken, and a callback."""
    flow = it.app.flow("f")
    one = flow.add(it.count.call("x"))
    page = flow.add(it.fetch.call("slow"))
    two = flow.add(it.count.call(page.result))
    flow.add(it.add.call(flow.results([one, two])))
    return await flow.enqueue()


def store_of(at: Lab) -> Store:
    """The store of the worker."""
    return at._inline._store


# ---------------------------------------------------------------- a failed member


async def test_a_failed_member_does_not_let_its_callback_wait_for_ever() -> None:
    """bullmq#3362, bullmq#3122, bullmq#800, dramatiq#868, rq#1436, pg-boss `flow()`"""
    it = Bench()
    it.broken = {"count x"}
    async with lab(it.app) as at:
        run = await fan_in(it)
        await at.drain(raises=False)
        assert await ends(run) == ["failed", "failed", "succeeded", "succeeded", "cancelled"]
    assert not [call for call in it.calls if call.startswith("add")]


async def test_a_member_that_ends_after_its_callback_was_cancelled_is_not_lost() -> None:
    """good_job#822, good_job#1239: what it told the cancelled callback is kept for the retry."""
    it = Bench()
    it.broken = {"count x"}
    async with lab(it.app) as at:
        run = await fan_in(it)
        await at.drain(raises=False)
        it.broken = set()
        await it.app.retry(step_id(run.id, 1))
        await at.advance(1)
        assert await ends(run) == ["succeeded"] * 5
    assert it.calls[-1] == "add [1, 9] 0"
    assert it.calls.count("add [1, 9] 0") == it.calls.count("fetch slow") == 1


async def test_the_result_of_a_pruned_member_is_there_when_the_other_is_retried() -> None:
    """Oban Pro 1.4 needed a trigger for pruned predecessors; celery#5237 never ran the chord of
    members whose results were gone."""
    it = Bench()
    it.broken = {"count x"}
    async with lab(it.app) as at:
        run = await fan_in(it)
        await at.drain(raises=False)
        store = store_of(at)
        await store.amend([step_id(run.id, 2), step_id(run.id, 3)], DeleteJob())
        it.broken = set()
        await run.retry()
        await at.advance(1)
        assert (await ends(run))[4] == "succeeded"
    assert it.calls[-1] == "add [1, 9] 0"


async def test_a_retry_in_bulk_brings_the_flow_back() -> None:
    """good_job#1239"""
    it = Bench()
    it.broken = {"count x"}
    async with lab(it.app) as at:
        run = await fan_in(it)
        await at.drain(raises=False)
        it.broken = set()
        await it.app.retry_many(task="count")
        await at.advance(1)
        assert await ends(run) == ["succeeded"] * 5


async def test_a_member_that_is_rescheduled_brings_the_flow_back() -> None:
    """A failed job that is rescheduled is retried."""
    it = Bench()
    it.broken = {"count x"}
    async with lab(it.app) as at:
        run = await fan_in(it)
        await at.drain(raises=False)
        it.broken = set()
        await it.app.reschedule(step_id(run.id, 1), after=60)
        await at.advance(61)
        assert await ends(run) == ["succeeded"] * 5


async def test_a_flow_is_retried_and_cancelled_by_its_id() -> None:
    """`mita retry FLOW` and `mita cancel FLOW` mean the steps."""
    it = Bench()
    it.broken = {"count x"}
    async with lab(it.app) as at:
        run = await fan_in(it)
        await at.drain(raises=False)
        it.broken = set()
        assert await it.app.retry(run.id) == "done"
        assert await it.app.cancel(run.id, "not needed") == "done"
        await at.advance(1)
        assert await ends(run) == ["cancelled", "cancelled", "succeeded", "succeeded", "cancelled"]
        assert await it.app.cancel(run.id) == "too late"
        with pytest.raises(JobCancelled):
            await run.wait()


async def test_a_cancelled_step_is_not_retried_alone() -> None:
    """It would wait for its failed predecessor for ever: bullmq#3122."""
    it = Bench()
    it.broken = {"count x"}
    async with lab(it.app) as at:
        run = await fan_in(it)
        await at.drain(raises=False)
        before = await ends(run)
        with pytest.raises(UsageError, match=r"waits for '.*000001', which is failed: retry that"):
            await it.app.retry(step_id(run.id, 4))
        await at.advance(LONG_S)
        assert await ends(run) == before


async def test_a_cancelled_step_that_a_person_brings_back_by_hand_is_cancelled_again() -> None:
    """Even below the app: no step waits for ever."""
    it = Bench()
    it.broken = {"count x"}
    async with lab(it.app) as at:
        run = await fan_in(it)
        await at.drain(raises=False)
        store = store_of(at)
        await store.amend([run.id], RetryJob(When(1)))
        await store.amend([step_id(run.id, 4)], RetryJob(When(at=LATEST)))
        await at.advance(LONG_S)
        assert await ends(run) == ["failed", "failed", "succeeded", "succeeded", "cancelled"]


async def test_a_cancel_in_bulk_cancels_what_follows() -> None:
    it = Bench()
    async with lab(it.app) as at:
        run = await fan_in(it)
        await it.app.cancel_many(task="fetch")
        await at.drain()
        assert await ends(run) == ["cancelled", "succeeded", "cancelled", "cancelled", "cancelled"]


# ---------------------------------------------------------------- while the flow is stored


class StopsError(Exception):
    """The process of the test ends here."""


async def test_a_member_that_ends_before_the_flow_is_stored_is_not_missed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """rq#387, rq#739, rq#1615, solid_queue#142, sidekiq-batch#41: a callback waits for all members,
    however early the first of them end. Each call stores one job, and each job runs at once."""
    monkeypatch.setattr("mita.client.flow_run.CALL_JOBS", 1)
    it = Bench()
    async with lab(it.app) as at:
        tools = it.app._flow_tools
        whole = type(tools).store_jobs

        async def store_jobs(self: Any, jobs: Sequence[Any], started: Any) -> None:
            for job in jobs:
                await whole(self, [job], started)
                await at.drain()

        monkeypatch.setattr(type(tools), "store_jobs", store_jobs)
        calls = [it.count.call("x" * n) for n in range(4)]
        run = await it.app.group(calls).then(it.add.call).enqueue()
        await at.drain()
        assert await ends(run) == ["succeeded"] * 6
    assert it.calls[-1] == "add [0, 1, 2, 3] 0"
    assert len(it.calls) == 5


@pytest.mark.parametrize("stored", range(6))
async def test_a_flow_that_is_stored_in_part_ends(
    stored: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The process that enqueues it dies after each of its jobs: nothing waits for ever."""
    it = Bench()
    async with lab(it.app) as at:
        tools = it.app._flow_tools
        whole = type(tools).store_jobs

        async def store_jobs(self: Any, jobs: Sequence[Any], started: Any) -> None:
            await whole(self, jobs[:stored], started)
            raise StopsError

        monkeypatch.setattr(type(tools), "store_jobs", store_jobs)
        with pytest.raises(StopsError):
            await fan_in(it)
        await at.advance(LONG_S)
        jobs = [await it.app.get(job.id) for job in (await it.app.jobs()).jobs]
    assert len(jobs) == stored
    for job in jobs:
        assert job is not None
        assert job.finished is not None, job
        if job.task != FLOW_TASK and job.state == "cancelled":
            assert "is gone" in job.timeline[-1].note or "was cancelled" in job.timeline[-1].note


async def test_a_flow_whose_enqueue_dies_before_its_last_word_ends_by_itself(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """All jobs are stored, and the arrival that says so is missing."""
    it = Bench()
    async with lab(it.app) as at:
        store = await it.app._store()
        arrive = store.arrive

        async def dead(arrivals: Sequence[Arrival]) -> list[Answer]:
            raise StopsError

        store.arrive = dead  # type: ignore[method-assign]
        with pytest.raises(StopsError):
            await fan_in(it)
        store.arrive = arrive  # type: ignore[method-assign]
        await at.advance(60)
        [flow] = (await it.app.flows()).flows
    assert flow.state == "succeeded"


# ---------------------------------------------------------------- a process that dies in between


def dies_after(calls: int) -> Callable[[pytest.MonkeyPatch, Store], None]:
    """Let the store fail after so many calls of the verbs that tell."""

    def arm(patch: pytest.MonkeyPatch, store: Store) -> None:
        left = [calls]

        def dying(whole: Callable[..., Any]) -> Callable[..., Any]:
            async def act(*args: Any) -> Any:
                if not left[0]:
                    raise StopsError
                left[0] -= 1
                return await whole(*args)

            return act

        for verb in ("arrive", "amend"):
            patch.setattr(store, verb, dying(getattr(store, verb)))

    return arm


@pytest.mark.parametrize("calls", range(5))
async def test_a_worker_that_dies_while_it_tells_of_a_failure_leaves_nothing_waiting(
    calls: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It dies after each of its calls: before or after the dependants are cancelled, the counter is
    told, and theirs. solid_queue#142, celery#4207."""
    it = Bench()
    it.broken = {"fetch x"}
    async with lab(it.app) as at:
        run = await it.app.chain(it.fetch.call("x"), it.count.call, it.tell.call("y")).enqueue()
        store = store_of(at)
        with monkeypatch.context() as patch:
            dies_after(calls)(patch, store)
            with pytest.raises(StopsError):
                await at.drain()
        await at.advance(LONG_S)
        assert await ends(run) == ["failed", "failed", "cancelled", "cancelled"]


async def test_a_success_that_was_settled_and_not_counted_is_no_lost_step() -> None:
    """celery#5237: with keep=0 a member is not even there any more when its flow looks."""
    app = Mita("memory://", keep=0, retry=Retry(max_retries=0))
    calls = list[str]()

    @app.task
    async def member(n: int) -> int:
        calls.append(f"member {n}")
        return n

    @app.task
    async def callback(numbers: list[int]) -> int:
        calls.append(f"callback {numbers}")
        return sum(numbers)

    async with lab(app) as at:
        run = await app.group([member.call(n) for n in range(3)]).then(callback.call).enqueue()
        store = store_of(at)
        whole = store.arrive

        async def arrive(arrivals: Sequence[Arrival]) -> list[Answer]:
            if any(one.receiver == run.id and one.sender == step_id(run.id, 4) for one in arrivals):
                raise StopsError  # the worker dies before it counts
            return await whole(arrivals)

        store.arrive = arrive  # type: ignore[method-assign]
        with pytest.raises(StopsError):
            await at.drain()
        store.arrive = whole  # type: ignore[method-assign]
        await at.advance(600)
        assert await run.get() is None  # it succeeded: a cancelled flow would be kept
    assert sorted(calls[:3]) == ["member 0", "member 1", "member 2"]
    assert calls[3:] == ["callback [0, 1, 2]"]


async def test_a_step_that_was_told_all_and_not_woken_starts() -> None:
    """A step is brought back by a process that did not know of the last word: the flow wakes it."""
    it = Bench()
    async with lab(it.app) as at:
        run = await fan_in(it)
        store, id = store_of(at), step_id(run.id, 4)
        await store.amend([id], CancelJob(LONG_S * 1000))
        await at.drain()
        await store.amend([id], RetryJob(When(at=LATEST)))
        await store.amend([run.id], RetryJob(When(1)))
        await at.advance(60)
        assert await ends(run) == ["succeeded"] * 5
    assert it.calls.count("add [1, 9] 0") == 1


# ---------------------------------------------------------------- while steps wait


async def test_a_step_that_waits_is_not_polled() -> None:
    """Oban's first workflows snoozed until their predecessors had ended, River's as well."""
    it = Bench()
    async with lab(it.app) as at:
        flow = it.app.flow("f")
        late = flow.add(it.fetch.after(10 * 3600).call("late"))
        flow.add(it.count.call(late.result))
        run = await flow.enqueue()
        await at.advance(9 * 3600)
        waiting = await it.app.get(step_id(run.id, 2))
        assert waiting is not None
        assert (waiting.started, waiting.reschedules, len(waiting.timeline)) == (None, 0, 1)
        await at.advance(2 * 3600)
        assert await ends(run) == ["succeeded"] * 3


@pytest.mark.parametrize("repeats", [1, 3])
async def test_a_member_that_tells_several_times_releases_its_callback_once(repeats: int) -> None:
    """good_job#832, celery#3538: a worker that dies after it has told is followed by one that tells
    again."""
    it = Bench()
    async with lab(it.app) as at:
        store = store_of(at)
        whole = store.arrive

        async def arrive(arrivals: Sequence[Arrival]) -> list[Answer]:
            answers = await whole(arrivals)
            for _ in range(repeats):
                again = await whole(arrivals)
                assert set(again) <= {Answer.TAKEN, Answer.TOO_LATE, Answer.UNKNOWN}
            return answers

        store.arrive = arrive  # type: ignore[method-assign]
        run = await fan_in(it)
        await at.advance(60)
        assert await ends(run) == ["succeeded"] * 5
    assert it.calls.count("add [1, 9] 0") == 1
    assert len(it.calls) == 4
