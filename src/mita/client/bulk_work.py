"""The handler of bulk runs (`mita.bulk`).

First the run freezes its choice: the ids of the jobs are stored, chunk by chunk, before the first
of them is changed. Then it changes them, batch by batch, and stores how far it is after each batch.
A run that takes over after a crash finds both. The batch that may have been done halfway is looked
at again: `rules.bulk.still_chosen` tells which of its jobs were changed already."""

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from typing import Any

import msgspec
from msgspec import Struct

from mita.errors import LeaseLost, UsageError
from mita.flows.acts import concerns_flows
from mita.model.bulk import BulkVerb, ChosenJob, ChosenJobs
from mita.model.job import Job
from mita.model.outcome import (
    Answer,
    CancelJob,
    Change,
    DeleteJob,
    Progress,
    RescheduleJob,
    RetryJob,
    RewriteJob,
)
from mita.model.record import WITHHELD, ProgressReport
from mita.model.time import DAY, NOW, SECOND, Moment, Wait, When
from mita.model.view import JobFilter
from mita.ports.store import Store
from mita.rules.bulk import (
    CHUNK_JOBS,
    REFUSED_ANSWER,
    BulkCounts,
    added,
    bulk_note,
    changeable,
    chosen_job,
    is_of_run,
    left_out,
    read_counts,
    still_chosen,
    tick_jobs,
    write_counts,
)
from mita.rules.claim_size import CALL_JOBS
from mita.rules.judge import Retention
from mita.rules.text import note
from mita.tasks import Job as RunningJob
from mita.tasks import Task
from mita.tasks.stored import encode, plain

from .bulk import Match
from .filters import job_filter
from .record import secret_of
from .rewrite import rewrite_job

MOST_REASON_CHARACTERS = 800  # the note also names the run
_KEEP_CHOICE_MS: Wait = 30 * DAY  # beyond the time that the rate needs

_pack = msgspec.msgpack.Encoder().encode
_read_chunk = msgspec.msgpack.Decoder(list[ChosenJob]).decode


class BulkSpec(Struct, frozen=True, kw_only=True):
    """What a bulk run is to do: the arguments of its job. `arguments` are packed."""

    verb: BulkVerb
    filters: dict[str, str] = {}
    rate: float | None = None
    arguments: bytes | None = None
    when: When | None = None
    reason: str = ""
    limit: int | None = None

    @property
    def want(self) -> JobFilter:
        """The filter of a store."""
        return job_filter(**self.filters)

    def change(self, id: str, keep: Retention) -> Change:
        """What is asked of each job by the run with this id. For `amend` the arguments differ from
        job to job, so only its kind is known here."""
        text = note(bulk_note(id, self.reason[:MOST_REASON_CHARACTERS]))
        match self.verb:
            case "retry":
                return RetryJob(self.when or NOW, text)
            case "cancel":
                return CancelJob(keep.failed, text)
            case "reschedule":
                return RescheduleJob(self.when or NOW, text)
            case "delete":
                return DeleteJob()
            case "amend":
                return RewriteJob(b"", text)


class BulkTools(Struct, frozen=True):
    """What bulk runs need of their app: its tasks, how long cancelled jobs are kept, and what
    changes up to 1,000 jobs with everything that follows in flows."""

    tasks: Mapping[str, Task[Any, Any]]
    keep: Retention
    amend: Callable[[Store, list[Match], Change], Awaitable[list[Answer]]]


class BulkWork:
    """One run of a bulk run's job."""

    def __init__(self, tools: BulkTools, store: Store, job: RunningJob, spec: BulkSpec) -> None:
        self._tools, self._store, self._job, self._spec = tools, store, job, spec
        self._claim, self._run = job._claim, job._run  # noqa: SLF001
        self._want, self._change = spec.want, spec.change(job.id, tools.keep)
        self._arguments: dict[str, Any] = plain(spec.arguments) if spec.arguments else {}
        self._counts = BulkCounts({})
        self._chunk: tuple[int, list[ChosenJob]] = -1, []  # the one that is worked on

    async def run(self) -> dict[str, int]:
        """Choose the jobs and change them. Returns how many gave which answer."""
        chosen = await self._choose()
        last, done, unsure = self._job.checkpoint, 0, False
        if last is not None and last.total is not None:
            done, unsure, self._counts = int(last.done), True, read_counts(last.message)
        await self._report(done, chosen.total)
        pace, at_once = _Pace(self._spec.rate), tick_jobs(self._spec.rate)
        while done < chosen.total:
            await pace.wait()
            part = await self._part(done, at_once)
            await self._work_on(part, unsure=unsure)
            unsure = False
            done += len(part)
            pace.count(len(part))
            await self._report(done, chosen.total)
        return self._counts.answers

    # ------------------------------------------------------------ choosing

    async def _choose(self) -> ChosenJobs:
        """Store the ids of the jobs, unless an earlier run has."""
        known = await self._run.recall("chosen", False)
        if known is not None:
            return msgspec.msgpack.decode(known, type=ChosenJobs)
        frozen: Moment = await self._job.once("frozen", self._store.now)
        total = chunks = 0
        async for chunk in self._chunks(frozen):
            total, chunks = total + len(chunk), chunks + 1
            await self._report(0, None, f"{total} chosen")
        chosen = ChosenJobs(total, chunks)
        await self._remember("chosen", _pack(chosen), None)
        return chosen

    async def _chunks(self, frozen: Moment) -> AsyncIterator[list[ChosenJob]]:
        """Store the chosen jobs, and yield them: `CHUNK_JOBS` at a time, only the last are fewer.
        Chunks that are stored already are not chosen again."""
        number, left = 0, self._spec.limit
        found, pages = list[ChosenJob](), self._matching(frozen, None)
        while left is None or left > 0:
            size = CHUNK_JOBS if left is None else min(CHUNK_JOBS, left)
            chunk = await self._load(number)
            if chunk is None:
                while len(found) < size and (page := await anext(pages, None)) is not None:
                    found += page
                if not found:
                    return
                chunk, found = await self._store_chunk(number, found[:size]), found[size:]
            else:
                found, pages = [], self._matching(frozen, chunk[-1].id)
            yield chunk
            if len(chunk) < size:
                return
            number, left = number + 1, None if left is None else left - len(chunk)

    async def _matching(self, frozen: Moment, after: str | None) -> AsyncIterator[list[ChosenJob]]:
        """Yield the jobs that match, page by page, newest first, with ids below `after`."""
        possible, never = changeable(self._change, self._want), left_out(self._change, self._want)
        while True:
            page = await self._store.page(self._want, after, CALL_JOBS)
            may_change = [
                job for job in page.jobs if job.state in possible and job.task not in never
            ]
            yield [one for job in may_change if (one := chosen_job(job, frozen)) is not None]
            if (after := page.after) is None:
                return

    def _chunk_name(self, number: int) -> str:
        return f"{self._job.task} {self._job.id} {number}"

    async def _load(self, number: int) -> list[ChosenJob] | None:
        packed = await self._run.recall(self._chunk_name(number), True)
        return None if packed is None else _read_chunk(packed)

    async def _store_chunk(self, number: int, chunk: list[ChosenJob]) -> list[ChosenJob]:
        rate = self._spec.rate
        needed = 0 if rate is None else round((number + 1) * CHUNK_JOBS / rate * SECOND)
        stored = await self._remember(
            self._chunk_name(number), _pack(chunk), _KEEP_CHOICE_MS + 2 * needed
        )
        return _read_chunk(stored)

    async def _remember(self, name: str, value: bytes, keep: Wait | None) -> bytes:
        stored = await self._run.remember(name, value, keep)
        if stored is None:
            raise LeaseLost(f"bulk run {self._job.id}: another worker has it")
        return stored

    async def _part(self, done: int, at_once: int) -> list[ChosenJob]:
        """The next jobs, of one chunk."""
        number, first = divmod(done, CHUNK_JOBS)
        if self._chunk[0] != number:
            chunk = await self._load(number)
            if chunk is None:
                raise UsageError(
                    f"the choice of bulk run {self._job.id} is gone: it was kept for "
                    f"{_KEEP_CHOICE_MS // DAY} days. Start another one for what is left"
                )
            self._chunk = number, chunk
        return self._chunk[1][first : first + at_once]

    # ------------------------------------------------------------ changing

    async def _work_on(self, part: Sequence[ChosenJob], *, unsure: bool) -> None:
        """Change these jobs, and count the answers. `unsure`: an earlier run may have changed some
        of them."""
        now = await self._store.now()
        found = await self._store.find([one.id for one in part])
        answers: Counter[str] = Counter()
        jobs: list[Job] = []
        for one, job in zip(part, found, strict=True):
            if job is not None and still_chosen(job, one, self._change, self._want, now):
                jobs.append(job)
            elif unsure and await self._has_changed(one, job):
                answers[Answer.DONE.value] += 1
            else:
                answers[(Answer.UNKNOWN if job is None else Answer.TOO_LATE).value] += 1
        refusal = ""
        if self._arguments:
            jobs, refusal = await self._rewrite(jobs, answers)
        if jobs and self._spec.verb != "amend":
            matches = [
                Match(job.id, job.task, job.queue, concerns_flows(job, self._change))
                for job in jobs
            ]
            given = await self._tools.amend(self._store, matches, self._change)
            answers.update(answer.value for answer in given)
        self._counts = added(self._counts, answers, refusal)

    async def _rewrite(self, jobs: list[Job], answers: Counter[str]) -> tuple[list[Job], str]:
        """Give these jobs other arguments. Returns those that have them now, and why the first of
        the others was refused. Counts the answers of the others; of `amend`, all."""
        rewritten, refusal, is_last = list[Job](), "", self._spec.verb == "amend"
        reason = bulk_note(self._job.id, self._spec.reason[:MOST_REASON_CHARACTERS])
        tasks = self._tools.tasks
        for job in jobs:
            try:
                change = rewrite_job(job, tasks, self._arguments, reason, self._store.room)
            except UsageError as error:
                answers[REFUSED_ANSWER] += 1
                why = f"task {job.task!r}: {WITHHELD}" if secret_of(job, tasks) else str(error)
                refusal = refusal or why
                continue
            [answer] = await self._store.amend([job.id], change)
            if answer is Answer.DONE:
                rewritten.append(job)
            if answer is not Answer.DONE or is_last:
                answers[answer.value] += 1
        return rewritten, note(refusal.replace("\n", " "))

    async def _has_changed(self, one: ChosenJob, job: Job | None) -> bool:
        """Whether an earlier run of this bulk run has changed this job."""
        if job is None:
            return isinstance(self._change, DeleteJob)
        lines = await self._store.timeline(one.id)
        return any(is_of_run(line.note, self._job.id) for line in lines)

    async def _report(self, done: int, total: int | None, message: str = "") -> None:
        """Store how far this run is. Raises `LeaseLost` if another worker has the job now."""
        report = ProgressReport(done, total, message or write_counts(self._counts))
        [took] = await self._store.progress([Progress(self._claim, encode(report))])
        if not took:
            raise LeaseLost(f"bulk run {self._job.id}: another worker has it")


class _Pace:
    """Keeps a rate: the next batch waits until the last one is paid for. Time that was lost is not
    made up for."""

    def __init__(self, rate: float | None) -> None:
        self._rate = rate
        self._loop = asyncio.get_running_loop()
        self._next = self._loop.time()

    async def wait(self) -> None:
        """Wait until the next batch may begin."""
        left = self._next - self._loop.time()
        await asyncio.sleep(max(0.0, left))
        self._next = max(self._next, self._loop.time())

    def count(self, jobs: int) -> None:
        """So many jobs were changed."""
        if self._rate is not None:
            self._next += jobs / self._rate
