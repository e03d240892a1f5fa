"""Why a step of a flow does not run: `explain` names the nearest steps, and what to do."""

from collections.abc import Sequence
from typing import Any

import pytest

from mita import Job, Mita, Reason, Retry, Step
from mita.client import flow_reader
from mita.model.outcome import CancelJob
from mita.rules.explain.evidence import ReasonCode
from mita.rules.flow import step_id
from mita.stores.memory import MemoryStore
from mita.testing import lab

FORBIDDEN = "forbidden"


class Bench:
    """An app whose tasks fail, wait for a key or wait for a signal, as their argument says."""

    def __init__(self) -> None:
        self.app = app = Mita("memory://", retry=Retry(max_retries=0))

        @app.task(resource="{key}")
        async def resize(key: str) -> int:
            if key.startswith(FORBIDDEN):
                raise ValueError("it is no PNG")
            return 1

        @app.task
        async def approve(job: Job) -> int:
            return int(await job.wait_for("ok", type=int))

        @app.task
        async def add(numbers: list[int]) -> int:
            return sum(numbers)

        @app.task
        async def tell() -> None: ...

        @app.task
        async def split(job: Job) -> int:
            await job.add(resize.call("gpu"))
            return 1

        self.resize, self.approve, self.add, self.tell = resize, approve, add, tell
        self.split = split

    def fan(self, keys: Sequence[str]) -> Any:
        """Steps side by side, and one after all of them."""
        flow = self.app.flow("import")
        parts = [flow.add(self.resize.call(key)) for key in keys]
        flow.add(self.add.call(flow.results(parts)))
        return flow


def codes(reasons: list[Reason]) -> list[ReasonCode]:
    return [reason.code for reason in reasons]


async def test_a_step_that_waits_names_the_step_that_holds_it_up() -> None:
    it = Bench()
    async with lab(it.app) as at:
        await it.app.hold("gpu", after=3600)
        run = await it.fan([f"k{n}" if n != 6 else "gpu" for n in range(12)]).enqueue()
        await at.drain()
        first, near, *_ = await it.app.explain(step_id(run.id, 13))
    assert first.text == "it waits for 1 of 12 steps: step 7 (resize) is blocked"
    assert first.evidence["steps"] == [step_id(run.id, 7)]
    assert near.code is ReasonCode.KEY_UNAVAILABLE
    assert near.text.startswith("step 7 (resize): key 'gpu' is on hold until ")
    assert near.command == ("unhold", "gpu", "--queue", "default")
    assert near.evidence["id"] == step_id(run.id, 7)


async def test_a_few_of_many_are_named_and_those_first_that_need_somebody() -> None:
    it = Bench()
    async with lab(it.app) as at:
        await it.app.hold("gpu", after=3600)
        await it.app.pause("default")
        run = await it.fan(["a", "b", "c", "d", "e"]).enqueue()
        await it.app.resume("default")
        other = await it.fan(["gpu", *"xyz"]).enqueue()
        await at.drain()
        reasons = await it.app.explain(step_id(other.id, 5))
        ended = await it.app.explain(step_id(run.id, 6))
    assert reasons[0].text == "it waits for 1 of 4 steps: step 1 (resize) is blocked"
    assert codes(ended) == [ReasonCode.SUCCEEDED]


async def test_ready_steps_are_named_up_to_three_and_the_rest_is_counted() -> None:
    it = Bench()
    async with lab(it.app):
        run = await it.fan([f"k{n}" for n in range(9)]).enqueue()
        reasons = await it.app.explain(step_id(run.id, 10))
    ready = [f"step {n} (resize) is ready" for n in (1, 2, 3)]
    assert reasons[0].text == f"it waits for 9 of 9 steps: {', '.join(ready)}, and 6 more"
    # steps with the same reason are named together, and the step itself does not say it again
    named = ", ".join(f"step {n} (resize)" for n in (1, 2, 3))
    assert reasons[1].text == f"{named}: no worker is alive"
    assert codes(reasons) == [ReasonCode.WAITS_FOR_STEPS, ReasonCode.NO_WORKER]


@pytest.mark.parametrize("members", [101, 2_500])
async def test_jobs_that_gather_are_not_named_and_the_cost_is_bounded(
    members: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    it = Bench()
    reads = 0
    for name in ("find", "once_values", "queues", "timeline", "ahead", "resources", "page"):
        whole = getattr(MemoryStore, name)

        async def counted(self: MemoryStore, *args: Any, whole: Any = whole, **more: Any) -> Any:
            nonlocal reads
            reads += 1
            return await whole(self, *args, **more)

        monkeypatch.setattr(MemoryStore, name, counted)
    async with lab(it.app):
        run = await it.fan(["k"] * members).enqueue()
        reads = 0
        [first, *_] = await it.app.explain(step_id(run.id, members + 1))
        assert f"{members:,} of {members:,} steps: step 1 (resize) is ready" in first.text
        [first, *_] = await it.app.explain(run.id)
        assert f"{members + 1:,} of {members + 1:,} steps: step 1 (resize) is ready" in first.text
    assert reads <= 90  # both together


async def test_a_flow_that_is_too_large_to_be_read_is_not_counted_exactly(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    it = Bench()
    monkeypatch.setattr(flow_reader, "MOST_FINDS", 3)
    monkeypatch.setattr(flow_reader, "CALL_JOBS", 50)
    async with lab(it.app):
        run = await it.fan(["k"] * 250).enqueue()
        [first, *_] = await it.app.explain(step_id(run.id, 251))
    assert first.text.startswith("it waits for at least 96 of 250 steps: step 1 (resize) is ready")
    assert first.evidence["exact"] is False


async def test_the_reason_is_found_at_the_end_of_a_long_chain() -> None:
    it = Bench()
    flow = it.app.flow("chain")
    last: Step[Any] = flow.add(it.approve.call())
    for _ in range(300):
        last = flow.add(it.tell.call(), after=[last])
    async with lab(it.app) as at:
        run = await flow.enqueue()
        await at.drain()
        first, near, *_ = await it.app.explain(step_id(run.id, last.number))
    assert first.text == "it waits for 1 of 1 steps: step 300 (tell) is waiting"
    assert near.text == "step 1 (approve): it waits for the signal 'ok' (without a time-out)"
    assert near.command == ("signal", step_id(run.id, 1), "ok", "JSON")


async def test_a_step_that_was_cancelled_names_the_one_that_failed() -> None:
    it = Bench()
    flow = it.app.flow("import")
    last: Step[Any] = flow.add(it.resize.call(FORBIDDEN))
    for _ in range(3):
        last = flow.add(it.tell.call(), after=[last])
    async with lab(it.app) as at:
        run = await flow.enqueue()
        await at.drain(raises=False)
        [reason] = await it.app.explain(step_id(run.id, 4))
        flow_failed, step_failed = await it.app.explain(run.id)
    assert reason.code is ReasonCode.CANCELLED
    assert "because step 1 (resize) failed: ValueError: it is no PNG" in reason.text
    assert reason.command == ("retry", step_id(run.id, 1))
    assert (flow_failed.code, flow_failed.command) == (ReasonCode.FAILED, ("retry", run.id))
    assert step_failed.text == "step 1 (resize) failed: ValueError: it is no PNG"
    assert step_failed.command == ("show", step_id(run.id, 1))


async def test_several_failed_steps_are_retried_with_their_flow() -> None:
    it = Bench()
    async with lab(it.app) as at:
        keys = [f"{FORBIDDEN} {n}" if n in (99, 102) else f"k{n}" for n in range(150)]
        run = await it.fan(keys).enqueue()
        await at.drain(raises=False)
        [reason] = await it.app.explain(step_id(run.id, 151))
    assert "because 2 steps failed, among them step 100 (resize): ValueError" in reason.text
    assert reason.command == ("retry", run.id)


async def test_a_step_that_a_person_cancelled_says_so() -> None:
    it = Bench()
    async with lab(it.app):
        run = await it.fan(["a", "b"]).enqueue()
        await it.app.cancel(step_id(run.id, 1), "the shop is closed")
        [own] = await it.app.explain(step_id(run.id, 1))
        [after] = await it.app.explain(step_id(run.id, 3))
    assert own.text.endswith("(the shop is closed)")
    assert "because step 1 (resize) was cancelled" in after.text
    assert after.command == ("retry", step_id(run.id, 1))


async def test_a_step_that_is_gone_is_named() -> None:
    it = Bench()
    async with lab(it.app):
        run = await it.fan(["a", "b"]).enqueue()
        store = await it.app.open_store()
        await store.amend([step_id(run.id, 1)], CancelJob(keep=0))  # and nobody is told
        first, gone, *_ = await it.app.explain(step_id(run.id, 3))
        await store.close()
    assert "step 1 is gone, step 2 (resize) is ready" in first.text
    assert gone.code is ReasonCode.STEP_GONE


async def test_a_flow_waits_for_what_a_step_has_added() -> None:
    it = Bench()
    async with lab(it.app) as at:
        await it.app.hold("gpu", after=3600)
        run = await it.app.chain(it.split.call()).enqueue()
        await at.drain()
        first, added = await it.app.explain(run.id)
        assert first.text == "flow 'chain' waits for 1 of 1 steps: step 1 (split) has succeeded"
        assert added.text == "step 1 (split) has added steps that have not ended"
        verb, id = added.command
        assert verb == "why"
        waits, near = await it.app.explain(id)
    assert "waits for 1 of 1 steps: step 1 (resize) is blocked" in waits.text
    assert near.code is ReasonCode.KEY_UNAVAILABLE
