"""Flows that are written or used wrongly: each is a clear error with its remedy, and nothing is
stored."""

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

from mita import Flow, Job, JobFailed, Mita, Rejected, Retry, Step, UsageError
from mita.model.flow import MOST_STEPS
from mita.testing import lab
from tests.engine.conftest import URLS, working


class Bench:
    """An app on a new SQLite file, two flows, and some steps of them."""

    def __init__(self, folder: Path) -> None:
        self.app = app = Mita(f"sqlite:///{folder}/jobs.db", retry=Retry(max_retries=0))
        self.ran: list[str] = []

        @app.task
        async def number(n: int) -> int:
            return n

        @app.task
        def text(s: str) -> str:
            self.ran.append("text")
            return s

        @app.task
        async def silent(n: int) -> None: ...

        @app.task
        async def total(ns: list[int]) -> int:
            return sum(ns)

        self.number, self.text, self.silent, self.total = number, text, silent, total
        self.flow, self.other = app.flow("import"), app.flow("other")
        self.one = self.flow.add(number.call(1))
        self.nothing = self.flow.add(silent.call(1))
        self.foreign = self.other.add(number.call(2))


def later(flow: Flow) -> Step[int]:
    """A step that is not there yet."""
    return Step(flow, 77, "number", int)


Attempt = Callable[[Any], Any]
BUILDING: list[tuple[str, Attempt, str]] = [
    (
        "a cycle",
        lambda it: it.flow.add(it.number.call(1), after=[later(it.flow)]),
        r"was not made by flow\.add\(…\): a step waits for earlier ones",
    ),
    (
        "a step of another flow",
        lambda it: it.flow.add(it.number.call(1), after=[it.foreign]),
        "is a step of another flow than 'import': give steps that were added to this one",
    ),
    (
        "a result of another flow",
        lambda it: it.flow.add(it.number.call(it.foreign.result)),
        "result of a step of another flow; use results of steps of this flow",
    ),
    (
        "results of another flow",
        lambda it: it.flow.results([it.one, it.foreign]),
        "is a step of another flow than 'import'",
    ),
    (
        "a result of a task that returns None",
        lambda it: it.flow.add(it.number.call(it.nothing.result)),
        r"step 2 has no result: task 'silent' returns None\. .* use flow\.add\(…, after=\[step\]\)",
    ),
    (
        "results of which one is None",
        lambda it: it.flow.results([it.one, it.nothing]),
        "step 2 has no result",
    ),
    (
        "a result of the wrong type",
        lambda it: it.text.call(it.one.result),
        "parameter 's' is annotated str, and <result of step 1> is int; give a result that fits",
    ),
    (
        "a list for one value",
        lambda it: it.number.call(it.flow.results([it.one, it.one])),
        "annotated int, and <results of steps 1, 1> is a list, a set or a dict; give one value",
    ),
    (
        "a list with a result for one value",
        lambda it: it.text.call([it.one.result]),
        "annotated str, and .<result of step 1>. is a list, a set or a dict",
    ),
    ("a step as an argument", lambda it: it.number.call(it.one), r"give its result, step\.result"),
    ("one step after", lambda it: it.flow.add(it.number.call(1), after=it.one), r"write \[step\]"),
    ("results of one step", lambda it: it.flow.results(it.one), r"write \[step\]"),
    ("no steps", lambda it: it.flow.results([]), "give at least one step"),
    (
        "a number in after",
        lambda it: it.flow.add(it.number.call(1), after=[1]),
        r"1 is not a step: give what flow\.add\(…\) returned",
    ),
    (
        "a payload too large",
        lambda it: it.flow.add(it.text.call("x" * 300_000)),
        "the limit is 262,144 .* store the data elsewhere and pass its name",
    ),
    ("a name of no use", lambda it: it.app.flow("a b"), "is not a usable name"),
    ("an empty chain", lambda it: it.app.chain(), "give at least one call"),
    (
        "a chain that begins without arguments",
        lambda it: it.app.chain(it.number.call, it.number.call),
        "begin with a call",
    ),
    (
        "a chain of tasks",
        lambda it: it.app.chain(it.text.call("x"), it.text),
        r"is a task: give text\.call, or a call of it",
    ),
    (
        "a chain as a list",
        lambda it: it.app.chain([it.number.call(1), it.number.call]),
        r"not as a list: chain\(\*links\)",
    ),
    (
        "a chain after a step without result",
        lambda it: it.app.chain(it.silent.call(1), it.number.call),
        "gets no result, because task 'silent' returns None: give a call with its arguments",
    ),
    ("a chain of None", lambda it: it.app.chain(it.number.call(1), None), "None is no call"),
    ("an empty group", lambda it: it.app.group([]), "give at least one call"),
    ("a group of one call", lambda it: it.app.group(it.number.call(1)), "give a list of calls"),
    (
        "a callback of the wrong type",
        lambda it: it.app.group([it.number.call(1)]).then(it.text.call),
        "annotated str, and <results of steps 1> is a list",
    ),
    (
        "a callback without result",
        lambda it: it.app.group([it.silent.call(1)]).then(it.total.call),
        "gets no result, because task 'silent' returns None",
    ),
]


@pytest.mark.parametrize(
    ("attempt", "says"), [case[1:] for case in BUILDING], ids=[case[0] for case in BUILDING]
)
async def test_what_no_flow_can_be_built_of(tmp_path: Path, attempt: Attempt, says: str) -> None:
    it = Bench(tmp_path)
    with pytest.raises(UsageError, match=says):
        attempt(it)
    assert it.ran == []
    async with it.app:
        assert (await it.app.jobs()).jobs == ()


@pytest.mark.parametrize(
    "compute",
    [
        lambda result: f"{result}",
        str,
        lambda result: result + 1,
        lambda result: 1 + result,
        lambda result: result == 1,
        lambda result: result != 1,
        lambda result: result < 1,
        lambda result: 1 if result else 2,
        len,
        list,
        lambda result: result[0],
        lambda result: result.real,
        int,
        range,
        lambda result: 1 in result,
    ],
)
def test_a_result_is_no_value_before_the_flow_runs(
    tmp_path: Path, compute: Callable[[Any], Any]
) -> None:
    """For a type checker it is one. Text with a result in it would be stored as text."""
    with pytest.raises(UsageError, match="is not known before the flow runs: pass it on as an"):
        compute(Bench(tmp_path).one.result)


async def test_a_result_in_a_plain_enqueue(tmp_path: Path) -> None:
    it = Bench(tmp_path)
    async with it.app:
        with pytest.raises(UsageError, match=r"known only in its flow: pass the call to flow\.add"):
            await it.number.enqueue(it.one.result)
        with pytest.raises(UsageError, match=r"known only in its flow: pass the call to flow\.add"):
            await asyncio.to_thread(it.number.enqueue_sync, it.one.result)
        assert (await it.app.jobs()).jobs == ()


async def test_adding_to_a_flow_that_was_enqueued_and_one_that_ended(tmp_path: Path) -> None:
    """The step would never run."""
    it = Bench(tmp_path)
    says = r"'import' was enqueued as \w+: .* Add all steps before flow\.enqueue\(\)"
    async with lab(it.app) as at:
        run = await it.flow.enqueue()
        with pytest.raises(UsageError, match=says):
            it.flow.add(it.number.call(3), after=[it.one])
        await at.drain()
        await run.wait(timeout=1)
        with pytest.raises(UsageError, match=says):
            it.flow.add(it.number.call(3))
        record = await run.get()
        assert record is not None
        assert len(record.steps) == 2


async def test_the_same_flow_enqueued_twice_is_two_flows(tmp_path: Path) -> None:
    it = Bench(tmp_path)
    async with lab(it.app) as at:
        runs = [await it.flow.enqueue(), await it.flow.enqueue()]
        await at.drain()
        assert [await run.result(it.one) for run in runs] == [1, 1]
    assert runs[0].id != runs[1].id


async def test_results_of_what_is_no_step_of_the_run(tmp_path: Path) -> None:
    """Another step of the same number would be taken for it."""
    it = Bench(tmp_path)
    async with it.app:
        run = await it.flow.enqueue()
        with pytest.raises(UsageError, match="is a step of another flow than"):
            await run.result(it.foreign, timeout=1)
        with pytest.raises(UsageError, match="1 is not a step"):
            await run.result(1, timeout=1)  # type: ignore[arg-type]


async def test_a_flow_that_is_not_there(tmp_path: Path) -> None:
    it = Bench(tmp_path)
    async with it.app:
        job = await it.number.enqueue(1)
        for id in ("no-such-flow", job.id):
            run = it.app.flow_run(id)
            assert await run.get() is None
            attempts: list[Callable[[], Awaitable[Any]]] = [run.cancel, run.retry]
            for attempt in attempts:
                with pytest.raises(UsageError, match=f"no flow '{id}' is in the store"):
                    await attempt()


def test_more_steps_than_a_flow_can_have(tmp_path: Path) -> None:
    it = Bench(tmp_path)
    flow, call = it.app.flow("large"), it.number.call(1)
    for _ in range(MOST_STEPS):
        flow.add(call)
    with pytest.raises(UsageError, match="a flow has at most 100,000 steps: make several flows"):
        flow.add(call)


async def test_a_result_too_large_for_the_next_step_fails_its_own(tmp_path: Path) -> None:
    """NATS has the smallest room. The next step is cancelled, and the error has the remedy."""
    app = Mita(URLS["nats"](tmp_path), retry=Retry(max_retries=0))

    @app.task
    async def make() -> bytes:
        return b"x" * 2_000_000

    @app.task
    async def take(data: bytes) -> int:
        return len(data)

    async with app, working(app):
        flow = app.flow("large")
        made = flow.add(make.call())
        flow.add(take.call(made.result))
        run = await flow.enqueue()
        with pytest.raises(JobFailed, match="1 of its steps failed: 1"):
            await run.wait(timeout=30)
        with pytest.raises(JobFailed, match="store it elsewhere and return its name"):
            await run.result(made, timeout=30)
        record = await run.get()
        assert record is not None
        assert [step.state for step in record.steps] == ["failed", "cancelled"]


async def test_a_call_too_large_for_the_store_stores_nothing_of_the_flow(tmp_path: Path) -> None:
    app = Mita(URLS["nats"](tmp_path), payload_limit=10_000_000)

    @app.task
    async def take(data: bytes) -> int:
        return len(data)

    async with app:
        flow = app.flow("large")
        small = flow.add(take.call(b"x"))
        flow.add(take.call(b"x" * 5_000_000), after=[small])
        with pytest.raises((UsageError, Rejected)):
            await flow.enqueue()
        assert (await app.jobs()).jobs == ()


async def test_children_that_cannot_be(tmp_path: Path) -> None:
    it = Bench(tmp_path)
    cases: dict[str, Callable[[Job], Awaitable[Any]]] = {
        "is not a call: make one with task.call": lambda job: job.run(it.number(1)),  # type: ignore[arg-type]
        "known only in its flow": lambda job: job.run(it.number.call(it.one.result)),
        "a child has no unique key": lambda job: job.run(it.number.options(unique="u").call(1)),
        "child key '' is not usable": lambda job: job.run(it.number.call(1), name=""),
    }

    @it.app.task
    async def parent(job: Job, says: str) -> None:
        await cases[says](job)

    @it.app.task
    async def twice(job: Job) -> int:
        await job.run(it.number.call(1), name="a")
        return await job.run(it.number.call(2), name="a")

    async with lab(it.app) as at:
        for says in cases:
            job = await parent.enqueue(says)
            await at.drain(raises=False)
            with pytest.raises(JobFailed, match=says):
                await job.result()
        assert {job.task for job in (await it.app.jobs()).jobs} == {"parent"}
        parents = await twice.enqueue()
        await at.drain(raises=False)
        with pytest.raises(JobFailed, match="child 'a' occurs twice in one run of task 'twice'"):
            await parents.result()


async def test_steps_that_a_handler_cannot_add(tmp_path: Path) -> None:
    it = Bench(tmp_path)

    async def one_after(job: Job) -> None:
        step = await job.add(it.number.call(1))
        await job.add(it.number.call(1), after=step)  # type: ignore[arg-type]

    async def computed(job: Job) -> None:
        step = await job.add(it.number.call(1))
        await job.add(it.number.call(step.result + 1))

    cases: dict[str, Callable[[Job], Awaitable[Any]]] = {
        "give steps that were added to this one, by job.add": lambda job: job.add(
            it.number.call(1), after=[it.foreign]
        ),
        "result of a step of another flow": lambda job: job.add(it.number.call(it.foreign.result)),
        "is not a call: make one with task.call": lambda job: job.add(it.number),  # type: ignore[arg-type]
        "has no unique key": lambda job: job.add(it.number.options(unique="u").call(1)),
        "leave out .at": lambda job: job.add(it.number.after(5).call(1)),
        "after: <Step 1, number> is no list of steps": one_after,
        "is not known before the flow runs": computed,
    }

    @it.app.task
    async def adder(job: Job, says: str) -> None:
        await cases[says](job)

    async with lab(it.app) as at:
        for says in cases:
            run = await it.app.chain(adder.call(says)).enqueue()
            await at.drain(raises=False)
            record = await run.get()
            assert record is not None
            [step] = record.steps
            assert says in step.error
        alone = await adder.enqueue("leave out .at")
        await at.drain(raises=False)
        with pytest.raises(JobFailed, match=r"is in no flow, so it can add no steps: enqueue it"):
            await alone.result()
        tasks = {job.task for job in (await it.app.jobs(limit=100)).jobs}
    assert tasks == {"adder", "mita.flow"}
