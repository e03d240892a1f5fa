"""A random workload that writes down what really happened, and what the metrics must say of it."""

import random
from collections import Counter
from typing import Any

from prometheus_client import CollectorRegistry

from mita import Abort, Job, Mita, Reschedule, Retry, Unavailable
from tests.engine.conftest import working
from tests.waiting import until

TIMEOUT_S = 280.0  # it takes seconds, but on a busy machine each switch of threads has to wait
LEASE_S = 600.0  # a machine that others keep busy must not lose a lease: the job would run again
STEPS = "mru"  # on the way: it moves itself, it raises, it finds its partner unavailable
ENDS = "sssssssfa"  # and in the end: it succeeds, it fails for good, it aborts
RETRIES = 2


class Workload:
    """Jobs of two queues. The log has one entry for each run: what that run did."""

    def __init__(self, app: Mita, jobs: int, seed: int) -> None:
        self._app, self._jobs, self._chance = app, jobs, random.Random(seed)
        self.log: list[str] = []
        self.cancelled = self.asked_to_move = self.timers = 0
        self._declare()

    def _declare(self) -> None:
        retry = Retry(max_retries=RETRIES, base=0.001, cap=0.002)

        @self._app.task(name="walk", queue="free", retry=retry)
        async def walk(job: Job, plan: str) -> None:
            """A run does the step whose turn it is: every failure and every move brings the
            next."""
            self._step(plan, job.attempt - 1 + job.reschedules + job._claim.busy)

        @self._app.task(name="keyed", queue="keyed", resource="key:{key}", retry=retry)
        async def keyed(key: int) -> None:
            self.log.append("s")

        self._walk, self._keyed = walk, keyed

    def _step(self, plan: str, n: int) -> None:
        step = plan[min(n, len(plan) - 1)]
        self.log.append(step)
        match step:
            case "m":
                raise Reschedule(after=0.001)
            case "r" | "f":
                raise RuntimeError("as planned")
            case "u":
                raise Unavailable(after=0.001)
            case "a":
                raise Abort("as planned")

    def _plan(self) -> str:
        """At most as many failures on the way as there are retries, so that only `f` is the end of
        a job."""
        steps = [self._chance.choice(STEPS) for _ in range(self._chance.choice([0, 0, 0, 1, 2]))]
        end = self._chance.choice(ENDS)
        return "".join(step for step in steps if step != "r" or end != "f") + end

    async def run(self) -> None:
        async with working(self._app, concurrency=200, lease=LEASE_S):
            await self._enqueue()
            await until(self._is_over, "every job has ended", TIMEOUT_S)

    async def _enqueue(self) -> None:
        moved = await self._later(max(5, self._jobs // 200))
        gone = await self._later(max(5, self._jobs // 200))
        for job in moved:
            self.asked_to_move += await self._app.reschedule(job, after=0) == "done"
        for job in gone:
            self.cancelled += await self._app.cancel(job) == "done"
        keyed = max(20, self._jobs // 50)
        timers = max(20, self._jobs // 50)
        plain = self._jobs - len(moved) - len(gone) - keyed - timers
        calls: list[Any] = [self._walk.call(self._plan()) for _ in range(plain)]
        calls += [self._walk.after(0.05).call("s") for _ in range(timers)]
        calls += [self._keyed.call(self._chance.randrange(3)) for _ in range(keyed)]
        self.timers = timers + len(moved)
        self._chance.shuffle(calls)
        await self._app.enqueue_many(calls)

    async def _later(self, n: int) -> list[str]:
        return [
            job.id
            for job in await self._app.enqueue_many(
                [self._walk.after(3600).call("s") for _ in range(n)]
            )
        ]

    def _may_be_over(self) -> bool:
        """By the log: counting is work for a store, and this one is busy."""
        of = Counter(self.log)
        return of["s"] + of["a"] + of["f"] // (RETRIES + 1) + self.cancelled >= self._jobs

    async def _is_over(self) -> bool:
        if not self._may_be_over():
            return False
        counts = Counter[str]()
        for queue in (await self._app.counts()).values():
            counts.update(queue)
        return counts["succeeded"] + counts["failed"] + counts["cancelled"] == self._jobs

    async def busy(self) -> int:
        """How often jobs met a busy key, as they say themselves."""
        total, after = 0, None
        while True:
            page = await self._app.jobs(queue="keyed", after=after, limit=1000)
            total += sum(job.busy for job in page.jobs)
            if (after := page.after) is None:
                return total


def sums(registry: CollectorRegistry) -> Counter[str]:
    """What the metrics say, added up over queue and task: by name, and by name and the label that
    remains."""
    found: Counter[str] = Counter()
    for metric in registry.collect():
        for sample in metric.samples:
            rest = {
                name: value
                for name, value in sample.labels.items()
                if name not in ("queue", "task", "le")
            }
            if not sample.name.endswith(("_bucket", "_created")):
                found[":".join([sample.name, *rest.values()])] += sample.value  # type: ignore[assignment]
    return found
