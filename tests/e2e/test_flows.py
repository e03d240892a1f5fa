"""Flows of random shape on real workers that are killed: each ends as a model says."""

import asyncio
import random
from collections import defaultdict
from typing import Any

from msgspec import Struct

from mita.client.flow_run import FlowRun
from mita.model.record import DisplayState

from .harness import Process, Scene, scaled

WORKERS = 3
OK, FAIL, FLAKY = "ok", "fail", "flaky"


class PlannedStep(Struct):
    """A step of a random flow: its place among all steps, what it does, and what it waits for."""

    n: int
    plan: str
    after: list[int]  # positions in the flow
    wanted: list[int]
    always: bool


class PlannedFlow(Struct):
    steps: list[PlannedStep]

    def expected(self) -> list[DisplayState]:
        """How each step ends, by the rules alone."""
        states: list[DisplayState] = []
        for step in self.steps:
            before = [states[at] for at in (*step.after, *step.wanted)]
            if not step.always and any(state is not DisplayState.SUCCEEDED for state in before):
                states.append(DisplayState.CANCELLED)
            else:
                failed = step.plan == FAIL
                states.append(DisplayState.FAILED if failed else DisplayState.SUCCEEDED)
        return states

    def state(self) -> DisplayState:
        """How the flow ends."""
        states = self.expected()
        if DisplayState.FAILED in states:
            return DisplayState.FAILED
        if DisplayState.CANCELLED in states:
            return DisplayState.CANCELLED
        return DisplayState.SUCCEEDED

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
        plan = chance.choices((OK, FLAKY, FAIL), (90, 7, 3))[0]
        steps.append(PlannedStep(scene.number(), plan, after, wanted, always))
    return PlannedFlow(steps)


async def enqueue(scene: Scene, planned: PlannedFlow) -> FlowRun:
    flow = scene.app.flow("random")
    steps: list[Any] = []
    for one in planned.steps:
        inputs = flow.results([steps[at] for at in one.wanted]) if one.wanted else []
        call = scene.works.flow_step.call(one.n, one.plan, inputs)
        after = [steps[at] for at in one.after]
        steps.append(flow.add(call, after=after, always=one.always))
    run: FlowRun = await flow.enqueue()
    return run


async def check(scene: Scene, planned: PlannedFlow, run: FlowRun) -> None:
    """The flow ended as the model says, with the right results."""
    record = await run.get()
    assert record is not None
    assert [step.state for step in record.steps] == planned.expected()
    assert record.state == planned.state()
    for at, step in enumerate(record.steps):
        if step.state is DisplayState.SUCCEEDED:
            job = await scene.app.get(step.id)
            assert job.result == planned.result(at)


def check_order(scene: Scene, flows: list[PlannedFlow]) -> None:
    """No step ran before its predecessors ended, and no other run follows a success that was
    settled."""
    starts, ends = defaultdict[int, list[float]](list), defaultdict[int, list[float]](list)
    for line in scene.lines("start"):
        starts[line.n].append(line.mono)
    for line in scene.lines("end"):
        ends[line.n].append(line.mono)
    for flow in flows:
        expected = flow.expected()
        for step, state in zip(flow.steps, expected, strict=True):
            assert bool(starts[step.n]) == (state is not DisplayState.CANCELLED)
            for at in (*step.after, *step.wanted):
                before = flow.steps[at]
                if starts[step.n] and expected[at] is not DisplayState.CANCELLED:
                    assert min(starts[step.n]) >= min(ends[before.n])


async def test_flows_end_as_the_model_says_while_workers_are_killed(scene: Scene) -> None:
    """Steps that fail, are retried or always run, and workers that die at any point between."""
    chance = random.Random(scene.random.random())
    flows = [random_flow(scene, chance) for _ in range(scaled(8, 300))]
    pool: list[Process] = [scene.worker(concurrency=10) for _ in range(WORKERS)]
    runs = [await enqueue(scene, flow) for flow in flows]
    for n in range(scaled(4, 100)):
        await asyncio.sleep(scene.random.uniform(0.1, 0.5))  # the killer's pace
        await scene.kill(pool[n % WORKERS])
        pool[n % WORKERS] = scene.worker(concurrency=10)
    await scene.finished(within=scaled(150, 900))
    await scene.stop(*pool)
    for flow, run in zip(flows, runs, strict=True):
        await check(scene, flow, run)
    check_order(scene, flows)
    steps = sum(len(flow.steps) for flow in flows)
    scene.tell(f"{len(flows)} flows with {steps} steps ended as the model says")
