"""A job of a repeat with jitter is due a little later than its fire time: on every store."""

import asyncio

from mita import All, Every
from mita.engine.scheduler import fire_due
from mita.model.job import State
from mita.model.time import DAY, HOUR, MINUTE, SECOND
from mita.rules.display import as_datetime
from mita.rules.schedule import spec
from mita.rules.schedule.jobs import delay
from mita.testing.contract.clocks import Ticker
from mita.testing.contract.given import claims

from .given import KEY, Scene

JITTER = 3600  # seconds


async def test_a_job_is_due_at_its_fire_time_plus_its_delay(scene: Scene, clock: Ticker) -> None:
    now = await scene.store.now()
    repeat = await scene.stands(Every(2 * JITTER), now, jitter=JITTER)
    later = delay(KEY, spec.unpack(repeat.spec), now)
    assert 0 < later < JITTER * SECOND
    assert await scene.fire() == 1
    [job] = await scene.jobs()
    assert (job.fire_time, job.due, job.state) == (now, now + later, State.QUEUED)
    assert await claims(scene.store) == []
    assert (await scene.repeat()).cursor == now + 2 * HOUR, "the schedule itself is nominal"
    if clock.fake:
        await clock.tick(later - 1)
        assert await claims(scene.store) == []
        await clock.tick(1)
        [claim] = await claims(scene.store)
        assert (claim.id, claim.fire_time) == (job.id, now)


async def test_schedulers_that_fire_at_once_agree(scene: Scene) -> None:
    """Whichever wins, the job is the same one."""
    now = await scene.store.now()
    first = now - 20 * MINUTE
    repeat = await scene.stands(Every(60), first, jitter=DAY // SECOND, missed=All(100))
    others = [scene.store, await scene.another(), await scene.another()]
    await asyncio.gather(*(fire_due(store) for store in others for _ in range(3)))
    await scene.fire()
    wanted = spec.unpack(repeat.spec)
    jobs = await scene.jobs()
    assert len(jobs) >= 20
    for n, job in enumerate(jobs):
        assert job.fire_time == first + n * MINUTE
        expected = job.fire_time + delay(KEY, wanted, job.fire_time)
        assert job.due == max(expected, job.created)
        assert expected < job.fire_time + MINUTE, "never later than the next fire"


async def test_a_triggered_job_is_due_at_once(scene: Scene) -> None:
    await scene.stands(Every(2 * JITTER), await scene.store.now() + HOUR, jitter=JITTER)
    job = await scene.app.repeats.trigger(KEY)
    assert [claim.id for claim in await claims(scene.store)] == [job.id]


async def test_the_preview_and_the_record_are_nominal(scene: Scene) -> None:
    later = await scene.store.now() + HOUR
    await scene.stands(Every(60), later, jitter=JITTER)
    assert await scene.app.repeats.preview(KEY, 2) == [
        as_datetime(later),
        as_datetime(later + MINUTE),
    ]
    record = await scene.app.repeats.get(KEY)
    assert record is not None
    assert (record.next, record.jitter) == (as_datetime(later), JITTER)


async def test_why_says_that_a_job_waits_because_of_jitter(scene: Scene) -> None:
    now = await scene.store.now()
    await scene.stands(Every(2 * JITTER), now, jitter=JITTER)
    await scene.fire()
    [job] = await scene.jobs()
    [reason, *_] = await scene.app.explain(job.id)
    assert f"repeat {KEY!r} fires at" in reason.text
    assert "jitter" in reason.text
