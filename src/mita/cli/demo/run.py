"""One run of the demo: its app, its feed, and what the store says about each job."""

import asyncio
import time
from collections.abc import Callable

from mita import Handle, Job, Mita, MitaError
from mita.model.record import DisplayState, JobRecord, TimelineLine
from mita.rules.display import span

from .feed import Feed, now
from .flow_tasks import FlowTasks
from .tasks import DemoTasks

POLL_S = 0.03  # between two reads of the store
STEP_TIMEOUT_S = 10.0  # after this time an expected event counts as missing
ENDED = (DisplayState.SUCCEEDED, DisplayState.FAILED, DisplayState.CANCELLED)


class DemoFailed(MitaError):
    """A step of the demo did not happen as expected."""


def check(holds: bool, expectation: str) -> None:
    """Raise `DemoFailed` with the expectation if it does not hold."""
    if not holds:
        raise DemoFailed(f"the demo failed: {expectation}")


class DemoRun:
    """Starts jobs, waits for them, and reports what happens to them to the feed. `url` is that of
    its store. `patience_s` is how long the demo waits for its viewer."""

    def __init__(self, app: Mita, feed: Feed, url: str, patience_s: float) -> None:
        self.app, self.feed, self.url, self.patience_s = app, feed, url, patience_s
        self.tasks, self.flow_tasks = DemoTasks(app, self._ran), FlowTasks(app, self._ran)
        self.runs: dict[str, list[int]] = {}  # when each job ran, by id
        self.names: dict[str, str] = {}
        self._seen: set[tuple[str, int, str]] = set()
        self._remarks: dict[str, str] = {}

    async def ready(self) -> None:
        """Wait for the worker."""
        store = await self.app.open_store()
        try:
            end = time.monotonic() + STEP_TIMEOUT_S
            while not await store.workers():
                check(time.monotonic() < end, "its worker should have started by now")
                await asyncio.sleep(POLL_S)
        finally:
            await store.close()

    # ------------------------------------------------------------ what the steps use

    def watch(self, job: Handle[object], name: str, remark: str = "") -> str:
        """Watch this job from now on. `remark` is what the feed shows beside its enqueue."""
        return self.watch_id(job.id, name, remark)

    def watch_id(self, id: str, name: str, remark: str = "") -> str:
        """Watch the job with this id from now on."""
        self.names[id] = name
        self._remarks[id] = remark
        return id

    async def until(
        self, id: str, condition: Callable[[JobRecord], bool], expectation: str
    ) -> None:
        """Wait until this job is as the condition says. Raises `DemoFailed` after a while."""
        end = time.monotonic() + STEP_TIMEOUT_S
        while not condition(await self.read(id)):
            check(time.monotonic() < end, expectation)
            await self.pause()

    async def ended(self, *ids: str) -> list[JobRecord]:
        """Wait until all these jobs have ended and their events are printed."""
        end = time.monotonic() + STEP_TIMEOUT_S
        while True:
            records = [await self.read(id) for id in ids]
            if all(record.state in ENDED for record in records):
                self.feed.flush(everything=True)
                return records
            check(
                time.monotonic() < end,
                f"{', '.join(self.names[id] for id in ids)} should have ended by now",
            )
            await self.pause()

    async def made_by(self, repeat: str, n: int) -> list[str]:
        """Wait until a repeat has made this many jobs. Returns their ids, oldest first."""
        end = time.monotonic() + STEP_TIMEOUT_S
        while True:
            page = await self.app.jobs(repeat=repeat)
            made = [job.id for job in reversed(page.jobs)]
            for id in made:
                self._name(id, repeat, numbered=True)
                await self.read(id)
            if len(made) >= n:
                return made
            check(time.monotonic() < end, f"repeat {repeat!r} should have made {n} jobs by now")
            await self.pause()

    async def records(self) -> list[JobRecord]:
        """All jobs of the demo, in their order."""
        return [await self.read(id) for id in self.names]

    # ------------------------------------------------------------ reporting to the feed

    def _ran(self, job: Job, who: str, remark: str) -> None:
        """Called by every handler when it starts."""
        at = now()
        self.runs.setdefault(job.id, []).append(at)
        name = self._name(job.id, who, numbered=job.fire_time is not None)
        self.feed.add(at, "runs", name, remark)

    def _name(self, id: str, who: str, *, numbered: bool = False) -> str:
        if id not in self.names:
            earlier = sum(name.startswith(f"{who} ") for name in self.names.values())
            self.names[id] = f"{who} {earlier + 1}" if numbered else who
        return self.names[id]

    async def read(self, id: str) -> JobRecord:
        """Read a job from the store, and report what has happened to it."""
        record = await self.app.get(id)
        if record is None:
            raise DemoFailed(f"the demo failed: {self.names[id]} is gone from the store")
        for line in record.timeline:
            self._report_entry(record, line)
        return record

    def _report_entry(self, record: JobRecord, line: TimelineLine) -> None:
        at = round(line.at.timestamp() * 1000)
        # its own handler has reported the start
        if line.kind == "started" or (record.id, at, line.kind) in self._seen:
            return
        self._seen.add((record.id, at, line.kind))
        event = "enqueued" if line.kind == "created" else line.kind
        self.feed.add(at, event, self.names[record.id], self._remark(record, line))

    def _remark(self, record: JobRecord, line: TimelineLine) -> str:
        match line.kind:
            case "created":
                return self._remarks.get(record.id) or (
                    f"by repeat {record.repeat!r}" if record.repeat else ""
                )
            case "revived":
                return "queued again by retry, counters at zero"
            case "succeeded":
                return self._start_delay(record)
        return line.note

    def _start_delay(self, record: JobRecord) -> str:
        """How long after its due time a job started, if it did not wait for a key or a retry."""
        runs = self.runs.get(record.id, [])
        due = round(record.due.timestamp() * 1000)
        ran_at_once = len(runs) == 1 and record.resource is None
        return f"started {span(runs[0] - due)} after its due time" if ran_at_once else ""

    async def pause(self) -> None:
        """Print what has happened, and wait for a moment."""
        self.feed.flush()
        await asyncio.sleep(POLL_S)
