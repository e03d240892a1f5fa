"""Traps in which other systems with durable handlers were caught, each as a test. The docstrings
name the reports. More of them: early signals, waits without slots, steps of one name and steps
whose shape changed are in `test_handlers` and `test_workers`; values that are too large in
`test_bad_input`."""

import time
from collections.abc import Sequence
from typing import Any

from mita import Job, Mita, Retry
from mita.model.outcome import Settlement
from mita.testing import lab


def new_app() -> Mita:
    return Mita("memory://", retry=Retry(max_retries=0))


async def test_one_name_in_a_loop_does_not_return_the_first_result() -> None:
    """Trajectory-IR#281: the second turn is refused, and nothing happens twice."""
    app, charged = new_app(), list[int]()

    async def charge(customer: int) -> int:
        charged.append(customer)
        return customer

    @app.task
    async def charge_all(job: Job) -> None:
        for customer in (1, 2, 3):
            await job.step("charge", charge, customer)

    async with lab(app) as it:
        job = await charge_all.enqueue()
        await it.drain(raises=False)
        record = await app.get(job.id)
    assert record is not None
    assert record.state == "failed"
    assert "'charge'" in (record.error or "")
    assert charged == [1]


async def test_a_signal_between_the_look_and_the_wait_is_not_lost() -> None:
    """awa ADR-021: the handler has looked and found no signal, and its wait is not stored yet."""
    app = new_app()

    @app.task
    async def ask(job: Job) -> Any:
        return await job.wait_for("approval")

    async with lab(app) as it:
        job = await ask.enqueue()
        store = it._inline._store
        whole = store.settle

        async def settle(settlements: Sequence[Settlement]) -> list[bool]:
            store.settle = whole  # type: ignore[method-assign]
            await app.signal(job.id, "approval", "yes")
            return await whole(settlements)

        store.settle = settle  # type: ignore[method-assign]
        await it.drain()
        assert await job.result() == "yes"


async def test_a_signal_while_its_job_is_put_back_is_not_lost() -> None:
    """The run is stopped between its wait and its settlement: the next run finds the signal."""
    app, runs = new_app(), list[int]()

    @app.task(retry=Retry(max_retries=1, base=0))
    async def ask(job: Job) -> Any:
        runs.append(1)
        if len(runs) == 1:
            await app.signal(job.id, "approval", "yes")
            raise ConnectionError("the run ends before its wait")
        return await job.wait_for("approval")

    async with lab(app) as it:
        job = await ask.enqueue()
        await it.advance(60, raises=False)
        assert await job.result() == "yes"


async def test_no_clock_is_replaced() -> None:
    """hull#253: a handler sees the time as it is, in each of its runs. What must not change is in a
    step."""
    app, seen, kept = new_app(), list[float](), list[float]()

    @app.task
    async def onboard(job: Job) -> None:
        seen.append(time.time())
        kept.append(await job.step("begin", time.time))
        await job.sleep(3 * 86_400)

    before = time.time()
    async with lab(app) as it:
        await onboard.enqueue()
        await it.advance(4 * 86_400)
    assert len(seen) == 2
    assert before <= seen[0] <= seen[1] <= time.time()
    assert kept[0] == kept[1]
