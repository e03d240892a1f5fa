"""The steps of the demo. Each shows one feature, and checks that it worked."""

from collections.abc import Awaitable, Callable
from datetime import timedelta
from itertools import pairwise
from typing import NamedTuple

from mita import Every
from mita.model.outcome import Answer
from mita.model.record import DisplayState, JobRecord
from mita.rules.display import as_datetime

from .feed import now
from .flow_steps import approved, imported
from .run import DemoRun, check
from .tasks import CHARGE_S, FETCH_BACKOFF_S

LATE_MS = 2000  # how late a job may start on a busy machine


class DemoStep(NamedTuple):
    """One step: its heading, and the function that runs and checks it."""

    title: str
    sentence: str
    run: Callable[[DemoRun], Awaitable[None]]


async def at_once(demo: DemoRun) -> None:
    """A job without options starts at once."""
    job = demo.watch(await demo.tasks.greet.enqueue("greet Ada"), "greet Ada", "to run now")
    [record] = await demo.ended(job)
    _succeeded(record)
    _on_time(demo, record)


async def later(demo: DemoRun) -> None:
    """Jobs with a delay or a due time start then, and not earlier."""
    moment = as_datetime(now()) + timedelta(seconds=2)
    after = demo.watch(
        await demo.tasks.greet.after(1).enqueue("greet Bo"), "greet Bo", "to run after 1 s"
    )
    at = demo.watch(
        await demo.tasks.greet.at(moment).enqueue("greet Cy"),
        "greet Cy",
        f"to run at {moment:%H:%M:%S.%f}"[:-4] + " UTC",
    )
    for record in await demo.ended(after, at):
        _succeeded(record)
        _on_time(demo, record)


async def retried(demo: DemoRun) -> None:
    """A job that fails twice succeeds at its third run."""
    job = demo.watch(
        await demo.tasks.fetch.enqueue("fetch"), "fetch", "its server does not answer at first"
    )
    [record] = await demo.ended(job)
    _succeeded(record)
    check(record.attempts == 2, "the fetch should have failed twice before it succeeded")
    check(len(demo.runs[job]) == 3, "the fetch should have run three times")
    first, second, third = demo.runs[job]
    backoff = FETCH_BACKOFF_S * 1000
    check(
        second - first >= backoff and third - second >= 2 * backoff,
        "the delays between retries should grow",
    )


async def rescheduled(demo: DemoRun) -> None:
    """A handler reschedules its job twice, which counts no attempt."""
    job = demo.watch(await demo.tasks.report.enqueue("report"), "report", "its data comes later")
    [record] = await demo.ended(job)
    _succeeded(record)
    check(record.reschedules == 2, "the report should have been rescheduled twice")
    check(record.attempts == 0, "a reschedule should not count as an attempt")


async def one_at_a_time(demo: DemoRun) -> None:
    """Jobs with the same resource key run one at a time; another key does not wait."""
    charge = demo.tasks.charge
    calls = {"charge 1": 42, "charge 2": 42, "charge 3": 42, "charge 4": 7}
    jobs = await demo.app.enqueue_many(
        [charge.call(who, account) for who, account in calls.items()]
    )
    ids = [
        demo.watch(job, who, f"key account:{account}")
        for job, (who, account) in zip(jobs, calls.items(), strict=True)
    ]
    records = await demo.ended(*ids)
    for record in records:
        _succeeded(record)
    starts = sorted(demo.runs[id][0] for id in ids[:3])
    charge_ms = CHARGE_S * 1000
    check(
        all(b - a >= charge_ms for a, b in pairwise(starts)),
        "jobs of one key should run one at a time",
    )
    check(demo.runs[ids[3]][0] < starts[1], "a job of another key should not wait for them")
    check(
        sum(record.busy for record in records[:3]) >= 2, "two jobs should have found the key busy"
    )


async def repeated(demo: DemoRun) -> None:
    """A repeat creates three jobs at its interval."""
    record = await demo.app.repeat("tick", demo.tasks.tick.call("tick"), Every(0.8), limit=3)
    demo.feed.add(now(), "repeat", "tick", f"{record.words}, {record.limit} times")
    made = await demo.made_by("tick", 3)
    records = await demo.ended(*made)
    for job in records:
        _succeeded(job)
    times = [job.fire_time.timestamp() for job in records if job.fire_time is not None]
    check(
        [round(b - a, 3) for a, b in pairwise(times)] == [0.8, 0.8], "fires should be 0.8 s apart"
    )


async def dead_letters(demo: DemoRun) -> None:
    """A job that fails for good is kept, and runs again after a retry by hand."""
    job = demo.watch(
        await demo.tasks.deliver.enqueue("parcel"), "parcel", "its address is wrong; one retry"
    )
    [record] = await demo.ended(job)
    check(record.state is DisplayState.FAILED, "the parcel should be in the dead letters")
    check("no street" in (record.error or ""), "the dead letter should say why")
    demo.tasks.fixed = True
    demo.feed.add(now(), "fixed", "parcel", "the street is added to the address")
    check(await demo.app.retry(job) is Answer.DONE, "retry should queue the dead letter again")
    [record] = await demo.ended(job)
    _succeeded(record)
    check(len(demo.runs[job]) == 3, "the parcel should have run three times")


def _succeeded(record: JobRecord) -> None:
    check(
        record.state is DisplayState.SUCCEEDED,
        f"job {record.id} of {record.task} should have succeeded: it is {record.state}",
    )


def _on_time(demo: DemoRun, record: JobRecord) -> None:
    late = demo.runs[record.id][0] - round(record.due.timestamp() * 1000)
    check(late >= 0, f"{demo.names[record.id]} should not start before its due time")
    check(
        late < LATE_MS,
        f"{demo.names[record.id]} should start soon after its due time, not {late} ms later",
    )


STEPS = (
    DemoStep("Now.", "A job starts milliseconds after it is enqueued.", at_once),
    DemoStep("Later.", "After a delay, or at a point in time; never earlier.", later),
    DemoStep("Retried.", "A failed job is retried, after longer and longer delays.", retried),
    DemoStep(
        "Rescheduled.",
        "A handler may ask for another time; that is no failed attempt.",
        rescheduled,
    ),
    DemoStep(
        "One at a time.",
        "Jobs with the same key run one at a time; other keys do not wait.",
        one_at_a_time,
    ),
    DemoStep("Repeated.", "A repeat makes a job every 0.8 s, three times.", repeated),
    DemoStep(
        "Dead letters.",
        "A job without retries left is kept, and can be retried by hand.",
        dead_letters,
    ),
    DemoStep("Flow.", "Jobs that wait for jobs; one of them fails, and is retried.", imported),
    DemoStep("Approval.", "A handler waits for a person, and keeps no slot.", approved),
)
