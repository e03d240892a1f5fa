"""Flows of random shape on real workers that are killed, and on servers that are restarted: each
ends as a model says. Processes that die at a named point of a flow leave nothing that waits for
ever."""

import asyncio
import random
import time
from collections import defaultdict
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from msgspec import Struct

from mita.client.flow_run import FlowRun
from mita.flows import patrol
from mita.model.job import Job, State
from mita.model.record import DisplayState
from mita.model.view import JobFilter
from mita.rules import flow as flow_rules
from mita.rules.flow import step_id
from tests.waiting import until

from .deployments import Deployment, FileDeployment, deploy
from .harness import Process, Scene, scaled
from .jobs import AddedPlan
from .program import open_gate
from .stores import STORES

WORKERS = 3
PATROL_MS = scaled(1500, 10_000)
OK, FAIL, FLAKY = "ok", "fail", "flaky"
SUCCEEDED, FAILED, CANCELLED = (
    DisplayState.SUCCEEDED,
    DisplayState.FAILED,
    DisplayState.CANCELLED,
)


class FlowScene(Scene):
    """A store of its own, whose server can be restarted."""

    place: Deployment | FileDeployment

    def start_worker(self, point: str = "") -> Process:
        return self.start(worker={"concurrency": 10}, point=point, patrol_ms=PATROL_MS)

    async def restart_server(self) -> None:
        """Kill the server, as a power cut does, and start it again. A file has none."""
        if isinstance(self.place, FileDeployment):
            return
        self.place.kill_server()
        self.server_kills.append(time.monotonic())
        await asyncio.sleep(self.random.uniform(0.1, 1.0))  # the fault itself
        await asyncio.to_thread(self.place.start_server)


@pytest.fixture(params=STORES)
async def scene(
    request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> AsyncIterator[FlowScene]:
    monkeypatch.setattr(flow_rules, "_FIRST_PATROL", PATROL_MS)
    monkeypatch.setattr(patrol, "ABANDONED", 2 * PATROL_MS)
    place = await asyncio.to_thread(deploy, request.param, tmp_path)
    lease = 1.0 if request.param == "sqlite" else 4.0
    scene = FlowScene(tmp_path, place.url, request.node.user_properties, lease=lease)
    scene.place, scene.unsynced_claims_s = place, place.unsynced_claims_s
    yield scene
    await scene.close()
    place.close()


# ---------------------------------------------------------------- the model


class PlannedStep(Struct):
    """A step of a random flow: its number among all steps, what it does, and what it waits for:
    positions in the flow. `added` are the steps that its handler adds; they wait for each other."""

    n: int
    plan: str
    after: list[int]
    wanted: list[int]
    always: bool = False
    added: list["PlannedStep"] = []


def expected(steps: list[PlannedStep]) -> list[DisplayState]:
    """How each step ends, by the rules alone."""
    states: list[DisplayState] = []
    for step in steps:
        before = [states[at] for at in (*step.after, *step.wanted)]
        if not step.always and any(state is not SUCCEEDED for state in before):
            states.append(CANCELLED)
        else:
            states.append(FAILED if step.plan == FAIL else SUCCEEDED)
    return states


class PlannedFlow(Struct):
    steps: list[PlannedStep]

    def additions(self) -> list[tuple[int, list[PlannedStep]]]:
        """The steps that handlers add, each with the position of the step that adds them."""
        states = expected(self.steps)
        return [
            (at, step.added)
            for at, step in enumerate(self.steps)
            if step.added and states[at] is SUCCEEDED
        ]

    def state(self) -> DisplayState:
        """How the flow ends."""
        states = expected(self.steps)
        states += [state for _, added in self.additions() for state in expected(added)]
        for state in (FAILED, CANCELLED):
            if state in states:
                return state
        return SUCCEEDED

    def result(self, at: int) -> int:
        """What a step returns that succeeds."""
        step = self.steps[at]
        return step.n + sum(self.result(one) for one in step.wanted)


def random_flow(scene: Scene, chance: random.Random) -> PlannedFlow:
    steps: list[PlannedStep] = []
    for at in range(chance.randint(5, scaled(20, 60))):
        before = chance.sample(range(at), min(at, chance.choice((0, 1, 1, 2, 3))))
        always = chance.random() < 0.1
        wanted = [] if always else [one for one in before if chance.random() < 0.5]
        after = [one for one in before if one not in wanted]
        step = PlannedStep(scene.number(), random_plan(chance), after, wanted, always)
        if chance.random() < 0.06:
            step.added = random_addition(scene, chance)
        steps.append(step)
    return PlannedFlow(steps)


def random_plan(chance: random.Random) -> str:
    return chance.choices((OK, FLAKY, FAIL), (90, 7, 3))[0]


def random_addition(scene: Scene, chance: random.Random) -> list[PlannedStep]:
    return [
        PlannedStep(scene.number(), random_plan(chance), chance.sample(range(at), min(at, 1)), [])
        for at in range(chance.randint(1, 4))
    ]


async def enqueue(scene: Scene, planned: PlannedFlow) -> FlowRun:
    flow = scene.app.flow("random")
    steps: list[Any] = []
    for one in planned.steps:
        inputs = flow.results([steps[at] for at in one.wanted]) if one.wanted else []
        added = [AddedPlan(more.n, more.plan, more.after) for more in one.added]
        call = scene.works.flow_step.call(one.n, one.plan, inputs, added)
        after = [steps[at] for at in one.after]
        steps.append(flow.add(call, after=after, always=one.always))
    run: FlowRun = await flow.enqueue()
    return run


# ---------------------------------------------------------------- comparing


async def check(scene: Scene, planned: PlannedFlow, run: FlowRun) -> None:
    """The flow ended as the model says, with the right results."""
    record = await run.get()
    assert record is not None
    own = [step for step in record.steps if step.added_by is None]
    assert [step.state for step in own] == expected(planned.steps)
    added = {
        step_id(run.id, at + 1): [state.value for state in expected(steps)]
        for at, steps in planned.additions()
    }
    found = defaultdict[str, list[str]](list)
    for step in record.steps:
        if step.added_by is not None and step.state is not None:
            found[step.added_by].append(step.state.value)
    assert dict(found) == added
    assert record.state == planned.state()
    for at, step in enumerate(own):
        if step.state is SUCCEEDED:
            job = await scene.app.get(step.id)
            assert job.result == planned.result(at)


class Order:
    """When the runs of each step began and ended."""

    def __init__(self, scene: Scene) -> None:
        self._scene = scene
        self.starts = defaultdict[int, list[float]](list)
        self.ends = defaultdict[int, list[float]](list)
        for line in scene.lines("start"):
            self.starts[line.n].append(line.mono)
        for line in scene.lines("end"):
            self.ends[line.n].append(line.mono)

    def check(self, flow: PlannedFlow) -> None:
        self._check(flow.steps, None)
        for at, steps in flow.additions():
            self._check(steps, flow.steps[at])

    def _check(self, steps: list[PlannedStep], adder: PlannedStep | None) -> None:
        """A step ran if and only if the model says so, after all runs of its predecessors."""
        states = expected(steps)
        for step, state in zip(steps, states, strict=True):
            assert bool(self.starts[step.n]) == (state is not CANCELLED)
            before = [steps[at] for at in (*step.after, *step.wanted) if states[at] != CANCELLED]
            if not before and adder is not None:
                before = [adder]
            for one in before if self.starts[step.n] else ():
                self._check_pair(one, step)

    def _check_pair(self, before: PlannedStep, step: PlannedStep) -> None:
        """The step began after its predecessor had ended, and that one did not run again: it has
        one success. A server that was killed may have forgotten a claim of the predecessor."""
        began = min(self.starts[step.n])
        assert began >= min(self.ends[before.n])
        last = max(self.starts[before.n])
        forgotten = self._scene.unsynced_claims_s and any(
            abs(start - kill) < self._scene.unsynced_claims_s + self._scene.lease
            for start in self.starts[before.n]
            for kill in self._scene.server_kills
        )
        assert last <= began or forgotten, f"step {before.n} ran again after step {step.n} began"


# ---------------------------------------------------------------- random flows


@pytest.mark.timeout(3600)
async def test_flows_end_as_the_model_says_while_workers_are_killed(scene: FlowScene) -> None:
    """Steps that fail, are retried, always run or add others; workers that die at any point
    between, and a server that is restarted."""
    chance = random.Random(scene.random.random())
    flows = [random_flow(scene, chance) for _ in range(scaled(8, 300))]
    pool: list[Process] = [scene.start_worker() for _ in range(WORKERS)]
    begun = time.monotonic()
    runs = [await enqueue(scene, flow) for flow in flows]
    kills, restarts = scaled(4, 100), scaled(1, 5)
    for n in range(kills):
        await asyncio.sleep(scene.random.uniform(0.1, 0.5))  # the killer's pace
        await scene.kill(pool[n % WORKERS])
        pool[n % WORKERS] = scene.start_worker()
        if n % (kills // restarts) == 1:
            await scene.restart_server()
    await scene.finished(within=scaled(150, 1200))
    took = time.monotonic() - begun
    await scene.stop(*pool)
    for flow, run in zip(flows, runs, strict=True):
        await check(scene, flow, run)
    order = Order(scene)
    for flow in flows:
        order.check(flow)
    steps = sum(len(flow.steps) for flow in flows)
    added = sum(len(more) for flow in flows for _, more in flow.additions())
    again = sum(len(starts) - 1 for starts in order.starts.values())
    scene.tell(
        f"{len(flows)} flows with {steps} steps and {added} added ones ended as the model says, "
        f"{kills} workers and {len(scene.server_kills)} servers were killed, {again} runs were "
        f"repeated, {took:.0f} s"
    )


# ---------------------------------------------------------------- named points

POINTS = (
    "tell.before",
    "tell.between",
    "tell.after",  # the dependants are told, and the step is not settled
    "settle.before",
    "fail.after",  # a step has failed, and nobody is told
    "cancel.after",
    "count.before",
    "count.after",
    "add.before",
    "add.after",
)


def every_ending(scene: Scene) -> PlannedFlow:
    """A small flow with every kind of step."""

    def step(plan: str, after: list[int], **more: Any) -> PlannedStep:
        return PlannedStep(scene.number(), plan, after, more.pop("wanted", []), **more)

    added = [step(OK, []), step(FAIL, []), step(OK, [0]), step(OK, [1])]
    return PlannedFlow(
        [
            step(OK, [], added=added),
            step(OK, [], wanted=[0]),
            step(OK, [0]),
            step(FAIL, [0]),
            step(OK, [3]),
            step(OK, [1], wanted=[2]),
            step(OK, [4, 5], always=True),
            step(FLAKY, [6]),
        ]
    )


@pytest.mark.parametrize("point", POINTS)
async def test_a_worker_that_dies_at_a_point_of_a_flow_leaves_nothing_undone(
    scene: FlowScene, point: str
) -> None:
    for _ in range(scaled(1, 5)):
        flows = [every_ending(scene) for _ in range(3)]
        runs = [await enqueue(scene, flow) for flow in flows]
        await scene.died(scene.start_worker(point))
        successor = scene.start_worker()
        await scene.finished()
        await scene.stop(successor)
        order = Order(scene)
        for flow, run in zip(flows, runs, strict=True):
            await check(scene, flow, run)
            order.check(flow)


@pytest.mark.parametrize("calls", [1, 3, 1000])
async def test_a_process_that_dies_while_it_stores_a_flow_leaves_nothing_waiting(
    scene: FlowScene, calls: int
) -> None:
    """It dies after its first call, or after its last but before it says that the flow is stored.
    The flow is given up with a reason, or ends by itself."""
    first, last = scene.numbers(6)
    at_once = 1000 if calls == 1000 else calls
    point = "enqueue.after"
    planner = scene.start(
        "planner",
        numbers=(first, last),
        point=point,
        stored_at_once=at_once,
        patrol_ms=PATROL_MS,
    )
    await scene.died(planner)
    worker = scene.start_worker()
    await scene.finished()
    await scene.stop(worker)
    jobs = await all_jobs(scene)
    [flow] = [job for job in jobs if job.task == flow_rules.FLOW_TASK]
    if calls == 1000:
        assert {job.state for job in jobs} == {State.SUCCEEDED}
    else:
        assert flow.state is State.CANCELLED
    for job in jobs:
        if job.state is State.CANCELLED and job is not flow:
            record = await scene.app.get(job.id)
            note = record.timeline[-1].note
            assert "is gone" in note or "was cancelled" in note


async def all_jobs(scene: Scene) -> list[Job]:
    return list((await (await scene.store()).page(JobFilter(), None, 1000)).jobs)


async def test_a_run_that_has_lost_its_lease_releases_nothing(scene: FlowScene) -> None:
    """A worker is stopped for longer than its lease, and its run succeeds after that. Another one
    runs the step by then, and the next step waits for that run."""
    flow, first, second = scene.app.flow("stale"), scene.number(), scene.number()
    step = flow.add(scene.works.gated.call(first))
    flow.add(scene.works.nap.call(second), after=[step])
    await flow.enqueue()
    stale = scene.worker(deaf=True)
    await scene.started(first, by=stale)
    await scene.freeze(stale)
    heir = scene.worker()
    await scene.started(first, by=heir)
    open_gate(scene.gate(str(stale.who)))
    scene.thaw(stale)
    await until(lambda: stale_warnings(scene, stale), "the late run has told nobody")
    assert not scene.lines("start", n=second)
    open_gate(scene.gate(str(heir.who)))
    await scene.finished()
    await scene.stop(stale, heir)
    [end] = scene.lines("end", n=first, who=heir.who)
    assert min(line.mono for line in scene.lines("start", n=second)) >= end.mono


def stale_warnings(scene: Scene, process: Process) -> list[str]:
    """What the worker says of a step that ended after its lease. A store that tells and settles in
    one operation refuses both."""
    lines = scene.lines("warning", who=process.who)
    said = ("ended after its lease", "was settled too late")
    return [line.text for line in lines if any(text in line.text for text in said)]
