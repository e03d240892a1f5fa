"""What a fire does while the job of an earlier fire has not ended: on every store."""

import asyncio
from typing import Any

import pytest

from mita import All, Every, Key
from mita.engine.overlap import cancel_left_over, cancel_older
from mita.engine.scheduler import Scheduler, firing_of
from mita.events import Signal
from mita.events.signals import Amended, ignore_signal
from mita.model.job import Asked, Claim, Job, State
from mita.model.outcome import Answer, Held, Settlement, Verdict
from mita.model.repeat import Firing
from mita.model.time import DAY, HOUR
from mita.testing.contract.given import claim_one, claims
from tests.waiting import until

from .given import KEY, Scene

DONE = Verdict(state=State.SUCCEEDED, result=b"\xc0", keep=DAY)
BACK = Verdict(state=State.QUEUED)
STOPPED = Verdict(state=State.CANCELLED, keep=DAY)


async def stands(scene: Scene, overlap: str, **choices: Any) -> None:
    """A repeat of every hour whose first fire was ten hours ago."""
    first = await scene.store.now() - 10 * HOUR
    await scene.stands(Every(3600), first, overlap=overlap, **choices)


async def fire_only(scene: Scene) -> Firing:
    """One more fire, by a scheduler that dies right after."""
    repeat = await scene.repeat()
    assert repeat.cursor is not None
    firing = firing_of(repeat, repeat.cursor)
    assert await scene.store.fire([firing]) == [True]
    return firing


async def fire_and_cancel(scene: Scene) -> Firing:
    firing = await fire_only(scene)
    await cancel_older(scene.store, [firing], DAY, ignore_signal)
    return firing


async def states(scene: Scene) -> list[str]:
    """Of its jobs, oldest fire first; a running job that was asked to stop is `stopping`."""
    return [_state(job) for job in await scene.jobs()]


def _state(job: Job) -> str:
    return "stopping" if job.asked is Asked.CANCEL else job.state.value


async def settle(scene: Scene, claim: Claim, verdict: Verdict = DONE) -> None:
    assert await scene.store.settle([Settlement(claim, verdict)]) == [True]


# ---------------------------------------------------------------- queue


async def test_with_queue_every_fire_runs_after_the_one_before(scene: Scene) -> None:
    await stands(scene, "queue")
    fires = [await fire_only(scene) for _ in range(4)]
    for firing in fires:
        [running] = await claims(scene.store)
        assert running.fire_time == firing.last, "the oldest first"
        assert await claims(scene.store) == [], "the next one waits"
        await settle(scene, running)
    assert await states(scene) == ["succeeded"] * 4, "and nothing is dropped"


async def test_with_queue_a_triggered_job_takes_its_turn(scene: Scene) -> None:
    await stands(scene, "queue")
    await fire_only(scene)
    running = await claim_one(scene.store)
    job = await scene.app.repeats.trigger(KEY)
    assert await claims(scene.store) == []
    await settle(scene, running)
    assert (await claim_one(scene.store)).id == job.id


async def test_with_queue_a_task_keeps_its_own_keys(scene: Scene) -> None:
    """Two repeats of one task with `Key("gpu", limit=2)`: each runs one job at a time, and both
    together no more than the task's key allows."""
    keys: list[str | Key] = [Key("gpu", limit=2), "tape:{day}"]
    call = scene.digest.options(resource=keys, limit=5).call()
    first = await scene.store.now() - 10 * HOUR
    for key in (KEY, "other", "third"):
        await scene.stands(
            Every(3600), first, key, call=call, overlap="queue", missed=All(2), limit=2
        )
    assert await scene.fire() == 3
    order: dict[str | None, list[int]] = {}
    for _ in range(6):
        running = await claims(scene.store)
        assert len(running) <= 2, "the task's own key"
        assert len({claim.repeat for claim in running}) == len(running), "one of each repeat"
        for claim in running:
            order.setdefault(claim.repeat, []).append(claim.fire_time or 0)
            await settle(scene, claim)
    assert {key: len(times) for key, times in order.items()} == {KEY: 2, "other": 2, "third": 2}
    assert all(times == sorted(times) for times in order.values())


async def test_with_cancel_a_task_keeps_its_own_keys(scene: Scene) -> None:
    """The older job is cancelled, and the new one waits until it has ended, although the task's own
    key has room."""
    call = scene.digest.options(resource=[Key("gpu", limit=2)]).call()
    await stands(scene, "cancel", call=call)
    await fire_and_cancel(scene)
    old = await claim_one(scene.store)
    await fire_and_cancel(scene)
    assert (await states(scene))[0] == "stopping"
    assert await claims(scene.store) == [], "two never run at once"
    await settle(scene, old, STOPPED)
    assert len(await claims(scene.store)) == 1
    [view] = await scene.store.resources(key="gpu")
    assert len(view.holders) == 1


async def test_with_cancel_the_next_scheduler_finds_a_job_with_keys_of_its_own(
    scene: Scene,
) -> None:
    call = scene.digest.options(resource="gpu", limit=2).call()
    await stands(scene, "cancel", call=call)
    await fire_only(scene)
    await claim_one(scene.store)
    await fire_only(scene)
    await cancel_left_over(scene.store, DAY, ignore_signal)
    assert await states(scene) == ["stopping", "queued"]


# ---------------------------------------------------------------- cancel


async def test_with_cancel_a_fire_cancels_the_job_that_runs_and_waits_for_its_end(
    scene: Scene,
) -> None:
    await stands(scene, "cancel")
    await fire_and_cancel(scene)
    old = await claim_one(scene.store)
    newer = await fire_and_cancel(scene)
    assert (await states(scene))[0] == "stopping"
    assert await claims(scene.store) == [], "two never run at once"
    assert await scene.store.extend([old], HOUR) == [Held.CANCEL]
    await settle(scene, old, STOPPED)
    assert (await claim_one(scene.store)).fire_time == newer.last
    assert await states(scene) == ["cancelled", "running"]
    timeline = await scene.store.timeline(old.id)
    assert any("newer fire" in entry.note for entry in timeline), timeline


async def test_with_cancel_a_fire_cancels_jobs_that_wait(scene: Scene) -> None:
    """A job that was not started, and one that waits for its next attempt."""
    await stands(scene, "cancel")
    await fire_and_cancel(scene)
    await fire_and_cancel(scene)
    assert await states(scene) == ["cancelled", "queued"]
    await settle(scene, await claim_one(scene.store), BACK)
    await fire_and_cancel(scene)
    assert await states(scene) == ["cancelled", "cancelled", "queued"]


async def test_with_cancel_a_triggered_job_is_waited_for(scene: Scene) -> None:
    """A person asked for it: the schedule does not cancel it, and of the fires that wait for it
    only the newest is left."""
    await stands(scene, "cancel")
    await fire_and_cancel(scene)
    await settle(scene, await claim_one(scene.store))
    job = await scene.app.repeats.trigger(KEY)
    running = await claim_one(scene.store)
    assert running.id == job.id
    await fire_and_cancel(scene)
    newest = await fire_and_cancel(scene)
    await cancel_left_over(scene.store, DAY, ignore_signal)
    assert await scene.store.extend([running], HOUR) == [Held.HELD]
    assert await claims(scene.store) == []
    await settle(scene, running)
    assert (await claim_one(scene.store)).fire_time == newest.last


async def test_a_job_that_has_ended_is_left_as_it_is(scene: Scene) -> None:
    await stands(scene, "cancel")
    await fire_and_cancel(scene)
    await settle(scene, await claim_one(scene.store))
    await fire_and_cancel(scene)
    assert await states(scene) == ["succeeded", "queued"]


@pytest.mark.parametrize("runs", [True, False])
async def test_the_next_fire_cancels_what_a_scheduler_that_died_left(
    scene: Scene, runs: bool
) -> None:
    await stands(scene, "cancel")
    await fire_and_cancel(scene)
    if runs:
        await claim_one(scene.store)
    await fire_only(scene)
    assert len(await states(scene)) == 2
    await fire_and_cancel(scene)
    assert await states(scene) == ["stopping" if runs else "cancelled", "cancelled", "queued"]


@pytest.mark.parametrize("runs", [True, False])
async def test_the_next_scheduler_cancels_what_one_that_died_left(scene: Scene, runs: bool) -> None:
    """It need not wait for the next fire."""
    await stands(scene, "cancel")
    await fire_and_cancel(scene)
    if runs:
        await claim_one(scene.store)
    await fire_only(scene)
    for _ in range(2):
        await cancel_left_over(scene.store, DAY, ignore_signal)
        assert await states(scene) == ["stopping" if runs else "cancelled", "queued"]


async def test_a_scheduler_that_was_frozen_cancels_no_newer_job(scene: Scene) -> None:
    """It wakes up between its fire and its cancel, when newer fires have run."""
    await stands(scene, "cancel")
    frozen = await fire_only(scene)
    for _ in range(3):
        await fire_and_cancel(scene)
    await claim_one(scene.store)
    before = await states(scene)
    assert before == ["cancelled"] * 3 + ["running"]
    await cancel_older(scene.store, [frozen], DAY, ignore_signal)
    assert await states(scene) == before


async def test_jobs_of_other_repeats_and_of_other_policies_are_left_alone(scene: Scene) -> None:
    first = await scene.store.now() - HOUR // 2
    for key, overlap in (("other", "cancel"), ("plain", "allow"), ("line", "queue")):
        await scene.stands(Every(3600), first, key, overlap=overlap)
    await stands(scene, "cancel", missed="once")
    assert await scene.fire() >= 4
    await fire_and_cancel(scene)
    await cancel_left_over(scene.store, DAY, ignore_signal)
    assert (await states(scene))[0] == "cancelled"
    for key in ("other", "plain", "line"):
        assert [job.state for job in await scene.jobs(key)] == [State.QUEUED]


async def test_what_a_fire_cancels_is_reported(scene: Scene) -> None:
    """The event of a cancelled job is that of every cancel."""
    seen: list[Signal] = []
    await stands(scene, "cancel")
    await fire_only(scene)
    await cancel_older(scene.store, [await fire_only(scene)], DAY, seen.append)
    [old, _] = await scene.jobs()
    [told] = seen
    assert isinstance(told, Amended)
    assert (told.id, told.answer, told.task, told.queue) == (
        old.id,
        Answer.DONE,
        "digest",
        "mail",
    )


async def test_a_scheduler_that_starts_repairs_what_was_left_over(live: Scene) -> None:
    """The whole of it: a scheduler died between a fire and its cancel, and another one starts."""
    await stands(live, "cancel", limit=2)
    await fire_only(live)
    await claim_one(live.store)
    await fire_only(live)
    running = asyncio.create_task(Scheduler(await live.another(), 0.05, 1.0, "next").run())

    async def repaired() -> bool:
        return (await states(live))[0] == "stopping"

    try:
        await until(repaired, "the next scheduler cancels the old run")
    finally:
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)
    assert (await live.repeat()).state == "finished", "no fire was left to do it"


@pytest.mark.parametrize("overlap", ["queue", "cancel"])
async def test_a_worker_runs_one_at_a_time(live: Scene, overlap: Any) -> None:
    """On a real worker: with `queue` every fire runs, with `cancel` each ends the one before."""
    now, most, began = 0, 0, 0
    ended: list[str] = []

    @live.app.task(queue="slow")
    async def slow() -> None:
        nonlocal now, most, began
        now, began = now + 1, began + 1
        most = max(most, now)
        try:
            await asyncio.sleep(3600 if overlap == "cancel" else 0.05)
            ended.append("whole")
        except asyncio.CancelledError:
            ended.append("cancelled")
            raise
        finally:
            now -= 1

    worker = live.app.worker(queues=["slow"], poll=0.2, schedule_lock=0)
    running = asyncio.create_task(worker.run())
    missed: Any = All(100) if overlap == "queue" else "once"
    await live.app.repeat("slow", slow.call(), Every(0.2), limit=5, overlap=overlap, missed=missed)
    try:
        if overlap == "queue":
            await until(lambda: ended == ["whole"] * 5, "all five run")
        else:
            await until(lambda: "cancelled" in ended, "a newer fire ends the run before")
            await until(lambda: began > len(ended), "and runs itself")
    finally:
        worker.stop()
        worker.stop()
        await running
    assert most == 1
    if overlap == "queue":
        jobs = sorted(await live.jobs("slow"), key=lambda job: job.started or 0)
        assert [job.fire_time for job in jobs] == sorted(job.fire_time or 0 for job in jobs)
