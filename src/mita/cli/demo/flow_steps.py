"""The steps of the demo that show a flow and a durable handler."""

import time
from collections.abc import Sequence

from mita import FlowRun, JobFailed
from mita.model.outcome import Answer
from mita.model.record import DisplayState, JobRecord

from .commands import mita_command
from .feed import now
from .run import STEP_TIMEOUT_S, DemoRun, check

ID_DIGITS = 10  # of the job that waits: enough to find it among the jobs of the demo
PAGES = (1, 2, 3)
WITHOUT_A_PAGE = ["succeeded", "succeeded", "failed", "cancelled", "succeeded"]


async def imported(demo: DemoRun) -> None:
    """Three pages side by side, their total, and a summary however the total ends. One page fails
    at first: the total is cancelled, and both run again when the flow is retried."""
    tasks, flow = demo.flow_tasks, demo.app.flow("import")
    pages = [flow.add(tasks.page.call(f"page {number}", number)) for number in PAGES]
    total = flow.add(tasks.total.call("total", flow.results(pages)))
    flow.add(tasks.summary.call("summary"), after=[total], always=True)
    run = await flow.enqueue()
    ids = await _watched(demo, run)
    records = await demo.ended(*ids)
    states = [record.state.value for record in records]
    check(states == WITHOUT_A_PAGE, f"the steps should have ended as expected: {states}")
    try:
        await run.wait(STEP_TIMEOUT_S)
        check(False, "the flow should have failed with its page")
    except JobFailed as error:
        reason = error.error.partition(": ")[2]
        demo.feed.add(now(), "ended", "import", f"the flow failed: {reason}")
    tasks.page_is_back = True
    demo.feed.add(now(), "fixed", "page 3", "the page is back, and the flow is retried")
    check(await run.retry() == 2, "the page and the total should run again")
    for record in await demo.ended(*ids):
        _succeeded(record)
    check(await run.result(total) == sum(PAGES), "the total should have all pages")
    await run.wait(STEP_TIMEOUT_S)
    check([len(demo.runs[id]) for id in ids] == [1, 1, 2, 1, 1], "what succeeded should not rerun")
    demo.feed.add(now(), "ended", "import", "the flow succeeded; pages 1 and 2 ran once")
    demo.feed.flush(everything=True)


async def _watched(demo: DemoRun, run: FlowRun) -> list[str]:
    record = await run.get()
    check(record is not None, "the flow should be in the store")
    names = [f"page {number}" for number in PAGES]
    remarks = ["it waits for nothing"] * len(PAGES)
    names += ["total", "summary"]
    remarks += ["it waits for all pages", "it waits for the total, however that ends"]
    steps: Sequence[str] = [step.id for step in record.steps] if record is not None else []
    return [
        demo.watch_id(id, name, remark)
        for id, name, remark in zip(steps, names, remarks, strict=True)
    ]


async def approved(demo: DemoRun) -> None:
    """A handler waits for a signal, without a slot. The viewer may give it; after a while the demo
    does."""
    remark = "it has a step, and then it waits for a person"
    job = demo.watch(await demo.flow_tasks.publish.enqueue("article"), "article", remark)
    await demo.until(job, _waits, "the article should wait for its approval by now")
    demo.feed.flush(everything=True)
    demo.feed.say(_invitation(demo.patience_s))
    demo.feed.say(f"{mita_command()} signal {job[:ID_DIGITS]} approval true --url {demo.url}")
    end = time.monotonic() + demo.patience_s
    while not (await demo.read(job)).signals:
        if time.monotonic() >= end:
            answer = await demo.app.signal(job, "approval", True)
            check(answer in (Answer.DONE, Answer.TAKEN), "the article should take its approval")
            break
        await demo.pause()
    [record] = await demo.ended(job)
    _succeeded(record)
    check(record.attempts == 0, "a wait should not count as an attempt")
    check(len(demo.runs[job]) == 2, "the article should have run until its wait, and after it")
    check(demo.flow_tasks.drafts == 1, "the draft should have been written once")
    demo.feed.add(now(), "ended", "article", str(record.result))
    demo.feed.flush(everything=True)


def _invitation(patience_s: float) -> str:
    if patience_s:
        return f"Now type this in another terminal; after {patience_s:g} s the demo does it itself."
    return "In a terminal, the demo would wait here until you type this in another one."


def _waits(record: JobRecord) -> bool:
    return bool(record.waits_for)


def _succeeded(record: JobRecord) -> None:
    check(
        record.state is DisplayState.SUCCEEDED,
        f"job {record.id} of {record.task} should have succeeded: it is {record.state}",
    )
