"""The parts of the demo: the app, the feed, and a watch on the store for each job."""

import asyncio
import time

from mita import Handle, Job, Mita, MitaError
from mita.model.record import DisplayState, JobRecord, TimelineLine
from mita.rules.explain.reasons.words import span

from .feed import Feed, now
from .tasks import Tasks

POLL_S = 0.03  # seconds between two looks at the store
PROMISE_TIMEOUT_S = 10.0  # seconds after which something that was promised has not come
ENDED = (DisplayState.SUCCEEDED, DisplayState.FAILED, DisplayState.CANCELLED)


class NotAsPromised(MitaError):
    """The demo saw something else than what it shows."""


def expect(kept: bool, promise: str) -> None:
    if not kept:
        raise NotAsPromised(f"the demo did not go as promised: {promise}")


class Stage:
    def __init__(self, app: Mita, feed: Feed) -> None:
        self.app, self.feed = app, feed
        self.tasks = Tasks(app, self._ran)
        self.runs: dict[str, list[int]] = {}  # when each job ran, by id
        self.names: dict[str, str] = {}
        self._seen: set[tuple[str, int, str]] = set()
        self._asked: dict[str, str] = {}

    async def ready(self) -> None:
        """Wait for the worker."""
        store = await self.app.open_store()
        try:
            end = time.monotonic() + PROMISE_TIMEOUT_S
            while not await store.workers():
                expect(time.monotonic() < end, "its worker should have started by now")
                await asyncio.sleep(POLL_S)
        finally:
            await store.close()

    # ------------------------------------------------------------ what the acts use

    def cast(self, job: Handle[object], name: str, asked: str = "") -> str:
        """Watch this job from now on. `asked` is what the feed says about its enqueue."""
        self.names[job.id] = name
        self._asked[job.id] = asked
        return job.id

    async def ended(self, *ids: str) -> list[JobRecord]:
        """Wait until all these jobs have ended and their events are printed."""
        end = time.monotonic() + PROMISE_TIMEOUT_S
        while True:
            records = [await self._look(id) for id in ids]
            if all(record.state in ENDED for record in records):
                self.feed.flush(everything=True)
                return records
            expect(
                time.monotonic() < end,
                f"{', '.join(self.names[id] for id in ids)} should have ended by now",
            )
            await self._pause()

    async def made_by(self, repeat: str, n: int) -> list[str]:
        """Wait until a repeat has made this many jobs. Returns their ids, oldest first."""
        end = time.monotonic() + PROMISE_TIMEOUT_S
        while True:
            page = await self.app.jobs(repeat=repeat)
            made = [job.id for job in reversed(page.jobs)]
            for id in made:
                self._name(id, repeat, numbered=True)
                await self._look(id)
            if len(made) >= n:
                return made
            expect(time.monotonic() < end, f"repeat {repeat!r} should have made {n} jobs by now")
            await self._pause()

    async def records(self) -> list[JobRecord]:
        """All jobs of the demo, in their order."""
        return [await self._look(id) for id in self.names]

    # ------------------------------------------------------------ hearing of things

    def _ran(self, job: Job, who: str, remark: str) -> None:
        """Called by every handler when it starts."""
        at = now()
        self.runs.setdefault(job.id, []).append(at)
        name = self._name(job.id, who, numbered=job.fire_time is not None)
        self.feed.tell(at, "runs", name, remark)

    def _name(self, id: str, who: str, *, numbered: bool = False) -> str:
        if id not in self.names:
            earlier = sum(name.startswith(f"{who} ") for name in self.names.values())
            self.names[id] = f"{who} {earlier + 1}" if numbered else who
        return self.names[id]

    async def _look(self, id: str) -> JobRecord:
        record = await self.app.get(id)
        if record is None:
            raise NotAsPromised(
                f"the demo did not go as promised: {self.names[id]} is gone from the store"
            )
        for line in record.timeline:
            self._hear(record, line)
        return record

    def _hear(self, record: JobRecord, line: TimelineLine) -> None:
        at = round(line.at.timestamp() * 1000)
        # its own handler has reported the start
        if line.kind == "started" or (record.id, at, line.kind) in self._seen:
            return
        self._seen.add((record.id, at, line.kind))
        event = "enqueued" if line.kind == "created" else line.kind
        self.feed.tell(at, event, self.names[record.id], self._remark(record, line))

    def _remark(self, record: JobRecord, line: TimelineLine) -> str:
        match line.kind:
            case "created":
                return self._asked.get(record.id) or (
                    f"by repeat {record.repeat!r}" if record.repeat else ""
                )
            case "revived":
                return "brought back by retry, counters at zero"
            case "succeeded":
                return self._how_soon(record)
        return line.note

    def _how_soon(self, record: JobRecord) -> str:
        """How long after its time a job started, if it waited for nothing else."""
        runs = self.runs.get(record.id, [])
        due = round(record.due.timestamp() * 1000)
        alone = len(runs) == 1 and record.resource is None
        return f"began {span(runs[0] - due)} after its time" if alone else ""

    async def _pause(self) -> None:
        self.feed.flush()
        await asyncio.sleep(POLL_S)
