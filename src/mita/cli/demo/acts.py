"""The acts of the demo. Each shows one thing, and checks that it happened."""

from collections.abc import Awaitable, Callable
from datetime import timedelta
from itertools import pairwise
from typing import NamedTuple

from mita import Every
from mita.model.outcome import Answer
from mita.model.record import DisplayState, JobRecord
from mita.rules.explain.reasons.words import as_datetime

from .feed import now
from .stage import Stage, expect
from .tasks import CHARGE_S, FETCH_BACKOFF_S

LATE_MS = 2000  # milliseconds that a busy machine may be late


class DemoAct(NamedTuple):
    title: str
    sentence: str
    play: Callable[[Stage], Awaitable[None]]


async def at_once(stage: Stage) -> None:
    job = stage.cast(await stage.tasks.greet.enqueue("greet Ada"), "greet Ada", "to run now")
    [record] = await stage.ended(job)
    _succeeded(record)
    _on_time(stage, record)


async def later(stage: Stage) -> None:
    moment = as_datetime(now()) + timedelta(seconds=2)
    after = stage.cast(
        await stage.tasks.greet.after(1).enqueue("greet Bo"), "greet Bo", "to run after 1 s"
    )
    at = stage.cast(
        await stage.tasks.greet.at(moment).enqueue("greet Cy"),
        "greet Cy",
        f"to run at {moment:%H:%M:%S.%f}"[:-4] + " UTC",
    )
    for record in await stage.ended(after, at):
        _succeeded(record)
        _on_time(stage, record)


async def again(stage: Stage) -> None:
    job = stage.cast(
        await stage.tasks.fetch.enqueue("fetch"), "fetch", "its server does not answer at first"
    )
    [record] = await stage.ended(job)
    _succeeded(record)
    expect(record.attempts == 2, "the fetch should have failed twice before it succeeded")
    expect(len(stage.runs[job]) == 3, "the fetch should have run three times")
    first, second, third = stage.runs[job]
    waits = FETCH_BACKOFF_S * 1000
    expect(
        second - first >= waits and third - second >= 2 * waits,
        "the waits between retries should grow",
    )


async def moved(stage: Stage) -> None:
    job = stage.cast(await stage.tasks.report.enqueue("report"), "report", "its data comes later")
    [record] = await stage.ended(job)
    _succeeded(record)
    expect(record.reschedules == 2, "the report should have been rescheduled twice")
    expect(record.attempts == 0, "being rescheduled should cost no attempt")


async def turns(stage: Stage) -> None:
    charge = stage.tasks.charge
    calls = {"charge 1": 42, "charge 2": 42, "charge 3": 42, "charge 4": 7}
    jobs = await stage.app.enqueue_many(
        [charge.call(who, account) for who, account in calls.items()]
    )
    ids = [
        stage.cast(job, who, f"key account:{account}")
        for job, (who, account) in zip(jobs, calls.items(), strict=True)
    ]
    records = await stage.ended(*ids)
    for record in records:
        _succeeded(record)
    starts = sorted(stage.runs[id][0] for id in ids[:3])
    nap = CHARGE_S * 1000
    expect(
        all(b - a >= nap for a, b in pairwise(starts)), "jobs of one key should run one at a time"
    )
    expect(stage.runs[ids[3]][0] < starts[1], "a job of another key should not wait for them")
    expect(
        sum(record.busy for record in records[:3]) >= 2, "two jobs should have found the key busy"
    )


async def by_the_clock(stage: Stage) -> None:
    record = await stage.app.repeat("tick", stage.tasks.tick.call("tick"), Every(0.8), limit=3)
    stage.feed.tell(now(), "repeat", "tick", f"{record.words}, {record.limit} times")
    made = await stage.made_by("tick", 3)
    records = await stage.ended(*made)
    for job in records:
        _succeeded(job)
    times = [job.fire_time.timestamp() for job in records if job.fire_time is not None]
    expect(
        [round(b - a, 3) for a, b in pairwise(times)] == [0.8, 0.8], "fires should be 0.8 s apart"
    )


async def dead_letters(stage: Stage) -> None:
    job = stage.cast(
        await stage.tasks.deliver.enqueue("parcel"), "parcel", "its address is wrong; one retry"
    )
    [record] = await stage.ended(job)
    expect(record.state is DisplayState.FAILED, "the parcel should be in the dead letters")
    expect("no street" in (record.error or ""), "the dead letter should say why")
    stage.tasks.mended = True
    stage.feed.tell(now(), "mended", "parcel", "somebody writes the street down")
    expect(await stage.app.retry(job) is Answer.DONE, "retry should bring the dead letter back")
    [record] = await stage.ended(job)
    _succeeded(record)
    expect(len(stage.runs[job]) == 3, "the parcel should have run three times")


def _succeeded(record: JobRecord) -> None:
    expect(
        record.state is DisplayState.SUCCEEDED,
        f"job {record.id} of {record.task} should have succeeded: it is {record.state}",
    )


def _on_time(stage: Stage, record: JobRecord) -> None:
    late = stage.runs[record.id][0] - round(record.due.timestamp() * 1000)
    expect(late >= 0, f"{stage.names[record.id]} should not start before its time")
    expect(
        late < LATE_MS,
        f"{stage.names[record.id]} should start soon after its time, not {late} ms after it",
    )


ACTS = (
    DemoAct("Now.", "A job starts milliseconds after it is enqueued.", at_once),
    DemoAct("Later.", "After a wait, or at a moment; never before its time.", later),
    DemoAct("Again.", "A failure is tried again, after longer and longer waits.", again),
    DemoAct("Rescheduled.", "A handler may ask for another time; that costs no attempt.", moved),
    DemoAct("By turns.", "One job of a key at a time; other keys are not held up.", turns),
    DemoAct("By the clock.", "A repeat makes a job every 0.8 s, three times.", by_the_clock),
    DemoAct("Dead letters.", "A job out of retries is kept, and can come back.", dead_letters),
)
