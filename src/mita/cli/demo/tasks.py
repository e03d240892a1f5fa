"""The app of the demo: ordinary tasks, except that each reports when it runs."""

import time
from collections.abc import Callable

from mita import Job, Mita, Reschedule, Retry
from mita.model.policy import Jitter
from mita.tasks import Task

Ran = Callable[[Job, str, str], None]

CHARGE_S = 0.7  # seconds that a charge takes
FETCH_BACKOFF_S = 0.6  # seconds before the first retry of a fetch; the second waits twice as long
STEADY: Jitter = "none"  # every demo is the same


class DemoTasks:
    """`ran` is called for every run with the job, its name in the feed, and a remark."""

    def __init__(self, app: Mita, ran: Ran) -> None:
        self.fixed = False

        @app.task
        async def greet(job: Job, who: str) -> str:
            ran(job, who, "")
            return f"hello {who}"

        @app.task(retry=Retry(max_retries=3, base=FETCH_BACKOFF_S, jitter=STEADY))
        async def fetch(job: Job, who: str) -> str:
            ran(job, who, f"attempt {job.attempt}")
            if job.attempt < 3:
                raise OSError("no answer")
            return "page"

        @app.task
        async def report(job: Job, who: str) -> str:
            ran(job, who, f"attempt {job.attempt}" + (" still" if job.reschedules else ""))
            if job.reschedules < 2:
                raise Reschedule(after=0.8, reason="no data yet, again in 0.8 s")
            return "report"

        @app.task(queue="billing", resource="account:{account}")
        def charge(job: Job, who: str, account: int) -> None:  # not async: it runs on a thread
            ran(job, who, f"has account:{account} for {CHARGE_S} s")
            time.sleep(CHARGE_S)

        @app.task
        async def tick(job: Job, who: str) -> None:
            ran(job, who, "")

        @app.task(retry=Retry(max_retries=1, base=0.5, jitter=STEADY))
        async def deliver(job: Job, who: str) -> str:
            ran(job, who, f"attempt {job.attempt}")
            if not self.fixed:
                raise ValueError("no street")
            return "delivered"

        self.greet: Task[[str], str] = greet
        self.fetch: Task[[str], str] = fetch
        self.report: Task[[str], str] = report
        self.charge: Task[[str, int], None] = charge
        self.tick: Task[[str], None] = tick
        self.deliver: Task[[str], str] = deliver
