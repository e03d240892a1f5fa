"""Your tasks on a store of their own, with a clock that you move."""

from collections.abc import Callable, Sequence
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any

from mita.app import Mita
from mita.errors import UsageError
from mita.model.job import Job
from mita.model.outcome import Answer
from mita.model.time import Moment
from mita.model.view import JobFilter
from mita.rules.when import moment, wait
from mita.tasks import Task

from .awaited import awaited
from .clock import UnmovableClock
from .enqueued import EnqueuedJob, WantedJob, enqueued_jobs, wanted_arguments
from .enqueued_report import report
from .lab_block import LabBlock
from .lab_runs import LabResult
from .own_space import own_space

TIME_LIMIT_S = 30.0  # of real time, for one run
PAGE_JOBS = 500


class Lab(LabBlock):
    """Runs jobs one after the other, in the order in which a worker would start them, when a test
    says so. Async tests await its methods; sync tests call their `_sync` twins."""

    @property
    def now(self) -> datetime:
        """The time on the lab's clock."""
        return self.clock.time

    # ------------------------------------------------------------ running jobs

    @awaited
    async def drain(self, *, raises: bool = True) -> int:
        """Run all jobs that are due now, and jobs that become due as a result. Returns the number
        of runs.

        A job whose handler raises is retried or has failed, as with a worker, and then its error is
        raised here. The jobs after it have not run yet; the next call runs them. With
        `raises=False` the lab goes on after an error."""
        return _number_of_runs(await self._run(self.clock.now(), raises))

    def drain_sync(self, *, raises: bool = True) -> int:
        """`drain`, from code that is not async. Sync handlers run on this thread."""
        return _number_of_runs(self._run_here(self._run(self.clock.now(), raises)))

    @awaited
    async def advance(
        self,
        by: float | timedelta | None = None,
        *,
        to: datetime | None = None,
        raises: bool = True,
    ) -> int:
        """Move the clock `by` seconds (or a timedelta), or `to` a point in time, from due time to
        due time, and run all jobs on the way. Returns the number of runs. An error is raised as by
        `drain`, unless `raises=False`; then the clock stands where it was raised."""
        return _number_of_runs(await self._run_until(self._end(by, to), raises))

    def advance_sync(
        self,
        by: float | timedelta | None = None,
        *,
        to: datetime | None = None,
        raises: bool = True,
    ) -> int:
        """`advance`, from code that is not async. Sync handlers run on this thread."""
        return _number_of_runs(self._run_here(self._run_until(self._end(by, to), raises)))

    @awaited
    async def signal(self, id: str, name: str, value: Any = None) -> Answer:
        """Give the job with this `id` the `value` for the signal of this `name`, as `app.signal`
        does. Its handler goes on at the next `drain`."""
        return await self.app.signal(id, name, value)

    def signal_sync(self, id: str, name: str, value: Any = None) -> Answer:
        """`signal`, from code that is not async."""
        return self.app.signal_sync(id, name, value)

    def override(self, provider: Callable[..., Any], value: Any) -> None:
        """Give this `value` to the runs of this lab instead of what the `provider` (or lifespan)
        makes, which is not called. For a class, give the object."""
        self._overrides[provider] = value
        for inline, _ in self._inlines.values():
            inline.shared.override(provider, value)

    # ------------------------------------------------------------ what was enqueued

    def enqueued(self, task: Task[..., Any] | None = None) -> list[EnqueuedJob]:
        """The jobs of this `task` (None: of all tasks) that were enqueued in this lab, oldest
        first, whether they have run or not. It is not awaited, also in async tests."""
        jobs = self._jobs()
        if task is None:
            return jobs
        self._arguments(task, (), {})
        return [job for job in jobs if job.task == task.name]

    def assert_enqueued(
        self,
        task: Task[..., Any],
        /,
        *args: Any,
        count: int | None = None,
        queue: str | None = None,
        after: float | timedelta | None = None,
        at: datetime | None = None,
        state: str | None = None,
        tags: Sequence[str] = (),
        **kwargs: Any,
    ) -> list[EnqueuedJob]:
        """Raise `AssertionError` unless a job of this `task` was enqueued in this lab with these
        arguments (`args`, `kwargs`), whether it has run or not. Arguments that are not named may
        have any value; `unittest.mock.ANY` is equal to everything. Returns the jobs that match,
        oldest first.

        `count`: exactly so many jobs match; 0: none does. `queue`, `after` (the delay), `at` (the
        due time) and `state` must be the job's, and `tags` among its tags. Raises `UsageError` for
        arguments that the task does not take. It is not awaited, also in async tests."""
        __tracebackhide__ = True  # pytest shows the line of the test
        options = {"count": count, "queue": queue, "after": after, "at": at, "state": state}
        given = [name for name, value in options.items() if value is not None]
        if isinstance(tags, str):
            raise UsageError(f"tags={tags!r}: give a list, [{tags!r}]")
        wanted = WantedJob(
            task=getattr(task, "name", None),
            arguments=self._arguments(task, args, kwargs, [*given, *(["tags"] if tags else [])]),
            queue=queue,
            after=None if after is None else timedelta(milliseconds=wait("after", after)),
            at=at,
            state=state,
            tags=tuple(tags),
        )
        jobs = self._jobs()
        found = [job for job in jobs if not wanted.differences(job)]
        if len(found) != count if count is not None else not found:
            raise AssertionError(report(wanted, count, len(found), jobs))
        return found

    # ------------------------------------------------------------ how

    # for a type checker an attribute that is not there is an error, as it should be
    if not TYPE_CHECKING:

        def __getattr__(self, name: str) -> Any:
            renamed = {"run_due": "drain()", "run_until": "advance(seconds)"}
            hint = f": it is {renamed[name]} now" if name in renamed else ""
            raise AttributeError(f"a lab has no {name!r}{hint}")

    async def _run(self, end: Moment, raises: bool) -> LabResult:
        runner = await self._runner()
        return await runner.run_until(self.clock, end, raises)

    async def _run_until(self, end: Moment, raises: bool) -> LabResult:
        result = await self._run(end, raises)
        if result.error is None:
            self.clock.move_ms(max(0, end - self.clock.now()))
        return result

    def _end(self, by: float | timedelta | None, to: datetime | None) -> Moment:
        if isinstance(self.clock, UnmovableClock):
            self.clock.move_ms(0)  # raises
        if (by is None) == (to is None):
            raise UsageError("say either advance(<seconds>) or advance(to=<a moment>)")
        if to is None:
            return self.clock.now() + wait("by", by)
        end = moment(to, "to")
        if end < self.clock.now():
            raise UsageError(f"to={to}: the clock shows {self.now} already, and never goes back")
        return end

    def _arguments(
        self,
        task: Task[..., Any],
        args: tuple[Any, ...],
        kwargs: dict[str, Any],
        options: Sequence[str] = (),
    ) -> dict[str, Any]:
        return wanted_arguments(task, self.app.tasks, args, kwargs, options)

    def _jobs(self) -> list[EnqueuedJob]:
        self._check_open()
        # on another thread: also async tests, which have an event loop, do not await this
        jobs, now = self.app._portal.start(self._read_jobs()).result()  # noqa: SLF001
        jobs.sort(key=lambda job: (job.created, self._order.get(job.id, len(self._order)), job.id))
        return enqueued_jobs(jobs, now, self.app._registry.known)  # noqa: SLF001

    async def _read_jobs(self) -> tuple[list[Job], Moment]:
        store = await self.app._pool.store()  # noqa: SLF001
        if self._outbox is not None:
            await self._outbox.send(store, self._time_limit)
        jobs: list[Job] = []
        page = await store.page(JobFilter(), None, PAGE_JOBS)
        jobs += page.jobs
        while page.after is not None:
            page = await store.page(JobFilter(), page.after, PAGE_JOBS)
            jobs += page.jobs
        return jobs, await store.now()


def _number_of_runs(result: LabResult) -> int:
    __tracebackhide__ = True
    if result.error is not None:
        raise result.error
    return result.runs


def lab(
    app: Mita,
    url: str | None = None,
    *,
    start: datetime | None = None,
    roll: float = 1.0,
    time_limit: float = TIME_LIMIT_S,
) -> Lab:
    """Until the end of the block the jobs of `app` are kept in a place of their own, and run only
    when you say so:

        async with lab(app) as it:
            await greet.after(60).enqueue("Ada")
            assert await it.advance(60) == 1

        with lab(app) as it:
            greet.after(60).enqueue_sync("Ada")
            assert it.advance_sync(60) == 1

    The jobs are in memory. With a `url` they are in a new namespace of that database (for SQLite,
    in a new file beside it), which is removed at the end. The clock begins at `start`, an aware
    datetime. `roll` stands for chance in the backoff of retries: 1 gives the longest waits, 0 none
    at all. A handler that runs for more than `time_limit` seconds of real time is ended."""
    space = own_space(url)
    return Lab(app, space, space.new_clock(start), roll, time_limit)
