"""A store full of records that cannot be read, each with healthy jobs beside it that must finish.

Each broken record is made in the ordinary way and then spoiled from outside, one field with one
kind of garbage. All of them lie in one store at once, so that a run costs one store and not one for
each case."""

import asyncio
from collections.abc import Sequence
from typing import Any, NamedTuple, Protocol

from mita import Mita
from mita.model.flow import Arrival, FlowPlace
from mita.model.gate import Gate, StoredLimit
from mita.model.job import NewJob, State
from mita.model.outcome import (
    Answer,
    CancelJob,
    DeleteJob,
    PrioritiseJob,
    RetryJob,
    RewriteJob,
    Settlement,
    SignalJob,
    TimelineKind,
    Verdict,
)
from mita.model.repeat import Repeat
from mita.model.time import HOUR, LATEST, MINUTE, NOW, When
from mita.model.view import JobFilter, WorkerView
from mita.ports.ids import new_id
from mita.ports.pubsub import EventMessage
from mita.ports.store import OnceValue, Store
from mita.rules.durable import step_name, wait_name
from mita.rules.judge import success
from mita.rules.options import with_flow
from mita.rules.readable import is_unreadable
from mita.rules.states import TERMINAL

SIGNAL = SignalJob("go", b"\xc0")
PATIENCE = 60.0  # seconds until a healthy job that did not run is one that never will
LONG = 10 * MINUTE


class Case(NamedTuple):
    """One field of one record, and what is written there."""

    record: str
    field: str
    value: Any

    def __str__(self) -> str:
        return f"{self.record}.{self.field} = {self.value!r:.40}"


class Broken(NamedTuple):
    """A job that is spoiled, and what it was before that."""

    id: str
    role: str
    case: Case


class Layout(Protocol):
    """What a store keeps, and how to write into it behind the store's back."""

    identity: frozenset[str]  # fields by which a record is found: without them it cannot be

    def job_cases(self, role: str) -> list[Case]: ...

    def other_cases(self) -> list[Case]: ...

    async def spoil(self, broken: Sequence[Broken]) -> list[Broken]:
        """Returns the cases that the engine allowed."""

    async def spoil_others(self, cases: Sequence[Case], ids: Sequence[str]) -> None:
        """The n-th case is the n-th repeat, worker, hold … that `others` has made. `ids` are jobs
        with a timeline."""


def some(values: Sequence[Any], n: int, at: int) -> list[Any]:
    """`n` of these values, other ones for each `at`: the daily run has not the time for all of them
    everywhere."""
    return [values[(at * n + k) % len(values)] for k in range(min(n, len(values)))]


def job(queue: str, **more: Any) -> NewJob:
    return NewJob(id=new_id(), task="send", queue=queue, payload=b"\x80", **more)


def step(place: bytes) -> NewJob:
    """A step that waits for others."""
    return job("steps", options=place, when=When(at=LATEST))


class Field:
    """The store, with everything in it."""

    def __init__(self, app: Mita, store: Store, layout: Layout) -> None:
        self.app, self.store, self.layout = app, store, layout
        self.broken: list[Broken] = []
        self.healthy: list[str] = []
        self.unreadable: list[str] = []
        self.waiting: list[str] = []
        self.steps: list[str] = []
        self._holders: list[Any] = []

    # ------------------------------------------------------------ before

    async def prepare(self, roles: Sequence[str]) -> None:
        for role in roles:
            if cases := self.layout.job_cases(role):
                await getattr(self, f"_{role}")(cases)
        await self._healthy(
            *(job(queue) for queue in ("mail", "other", "runs", "keys") for _ in range(2))
        )

    async def _put(self, jobs: Sequence[NewJob]) -> list[str]:
        for start in range(0, len(jobs), 500):
            await self.store.enqueue(jobs[start : start + 500])
        return [one.id for one in jobs]

    async def _healthy(self, *jobs: NewJob) -> None:
        self.healthy += await self._put(jobs)

    def _breaks(self, role: str, ids: Sequence[str], cases: Sequence[Case]) -> None:
        self.broken += [Broken(id, role, case) for id, case in zip(ids, cases, strict=True)]

    async def _claim(self, queue: str, n: int, lease: int) -> list[Any]:
        claims: list[Any] = []
        while len(claims) < n and (
            more := (await self.store.claim([queue], 500, lease, "dead")).claims
        ):
            claims += more
        assert len(claims) == n, (
            f"{len(claims)} of {n} could be claimed before anything was spoiled"
        )
        return claims

    async def _ended(self, cases: Sequence[Case]) -> None:
        self._breaks("ended", await self._put([job("ended") for _ in cases]), cases)
        done = success(b"\xc0", HOUR)
        claims = await self._claim("ended", len(cases), LONG)
        assert all(await self.store.settle([Settlement(claim, done) for claim in claims]))

    async def _plain(self, cases: Sequence[Case]) -> None:
        self._breaks("plain", await self._put([job("mail") for _ in cases]), cases)

    async def _keyed(self, cases: Sequence[Case]) -> None:
        """Broken before it was ever claimed, with a healthy job of the same key and one of the same
        unique key behind."""
        jobs = [job("mail", resource=f"k{n}", unique=f"u{n}") for n in range(len(cases))]
        self._breaks("keyed", await self._put(jobs), cases)
        await self._healthy(*(job("mail", resource=f"k{n}") for n in range(len(cases))))

    async def _running(self, cases: Sequence[Case]) -> None:
        """Its worker is gone, and a healthy job waits for its key."""
        jobs = [job("runs", resource=f"r{n}") for n in range(len(cases))]
        self._breaks("running", await self._put(jobs), cases)
        await self._claim("runs", len(cases), 1)
        await self._healthy(*(job("runs", resource=f"r{n}") for n in range(len(cases))))

    async def _blocked(self, cases: Sequence[Case]) -> None:
        """It waits for a key behind a healthy job that runs, and before another."""
        holders = await self._put([job("keys", resource=f"b{n}") for n in range(len(cases))])
        self._holders = await self._claim("keys", len(cases), LONG)
        self.healthy += holders
        self._breaks(
            "blocked",
            await self._put([job("keys", resource=f"b{n}") for n in range(len(cases))]),
            cases,
        )
        await self._healthy(*(job("keys", resource=f"b{n}") for n in range(len(cases))))
        while (await self.store.claim(["keys"], 500, LONG, "w")).busy:
            pass

    async def _waiting(self, cases: Sequence[Case]) -> None:
        """It waits for a signal, beside healthy jobs that wait as well."""
        ids = await self._put([job("waits") for _ in cases])
        self._breaks("waiting", ids, cases)
        await self._healthy(*(job("waits") for _ in range(3)))
        self.waiting = [*ids, *self.healthy[-3:]]
        waits = Verdict(state=State.QUEUED, when=When(HOUR), waits=SIGNAL.name)
        claims = await self._claim("waits", len(self.waiting), LONG)
        for claim in claims:
            for name in (wait_name(SIGNAL.name), step_name("before")):
                await self.store.store_once(OnceValue(claim=claim, name=name, value=b"\x00"))
        assert all(await self.store.settle([Settlement(claim, waits) for claim in claims]))

    async def _told(self, cases: Sequence[Case]) -> None:
        """Steps of flows that one of two predecessors has told that it has ended, beside healthy
        ones."""
        place = with_flow(b"", FlowPlace("f", 3, 2, predecessors=((1, 2),)))
        ids = await self._put([step(place) for _ in cases])
        self._breaks("told", ids, cases)
        await self._healthy(*(step(place) for _ in range(3)))
        self.steps = [*ids, *self.healthy[-3:]]
        await self._arrive("one")

    async def _arrive(self, sender: str) -> list[Answer]:
        """Tell all of these steps."""
        answers: list[Answer] = []
        for start in range(0, len(self.steps), 500):
            some = self.steps[start : start + 500]
            answers += await self.store.arrive(
                [Arrival("steps", id, sender, b"\xc0", 2) for id in some]
            )
        return answers

    async def others(self) -> list[Case]:
        """One repeat, worker, hold, lock, once value … for each case of it."""
        cases = self.layout.other_cases()
        now = await self.store.now()
        ids = await self._put([job("events", resource="noted") for _ in range(3)])
        [claim, *_] = (await self.store.claim(["events"], 1, LONG, "w")).claims
        for n in range(60):
            back = Verdict(state=State.QUEUED, event=TimelineKind.RETRIED, note="again")
            await self.store.settle([Settlement(claim, back)])
            [claim, *_] = (
                (await self.store.claim(["events"], 1, LONG, "w")).claims if n < 59 else [claim]
            )
        for n, case in enumerate(cases):
            await self._other(case, f"{case.record}{n}", now)
        self.healthy += ids
        return cases

    async def _other(self, case: Case, name: str, now: int) -> None:
        match case.record:
            case "repeat":
                await self.store.put_repeat(Repeat(key=name, spec=b"\x81", cursor=max(0, now - 1)))
            case "worker":
                view = WorkerView(id=name, name=name, host="h", pid=1, queues=(), tasks=(), slots=1)
                await self.store.beat(view, HOUR)
            case "hold":
                await self.store.hold(["other"], name, When(HOUR))
                await self._healthy(job("other", resource=f"free-{name}"))
            case "unique":
                await self._put([job("other", unique=name)])
            case "lock":
                await self.store.lock(name, "somebody", 1)
            case "queue":
                await self.store.pause([name])
                await self.store.resume([name])
                if case.field in ("stored_limit", "tat_us"):
                    await self.store.limit([name], None, StoredLimit(5, 1000, 1))
                if case.field != "paused":  # paused since nobody knows when is still paused
                    await self._healthy(job(name))
            case "message":
                await self.store.publish([EventMessage("other", 1, b"\x90")])
            case "once value":
                await self._put([job("once-values")])
                [claim] = (await self.store.claim(["once-values"], 1, 1, "dead")).claims
                await self.store.store_once(
                    OnceValue(claim=claim, name=name, value=b"\xc0", keep=HOUR)
                )
            case _:
                await self._limit(case.record, name)

    async def _limit(self, record: str, name: str) -> None:
        """A key with a rate, a stored limit and jobs; a running job with a further key, for which
        another waits; a limited queue; a queue with groups."""
        match record:
            case "key":
                rate = (Gate(name, None, 1000, 1),)
                await self._healthy(job("rates", gates=rate), job("rates", gates=rate))
                await self.store.limit(["rates"], name, StoredLimit(5, 1000, 1))
            case "holder":
                gates = (Gate(name, 1),)
                self._holders += await self._claimed(job("held", gates=gates))
                await self._healthy(job("held", gates=gates))
            case "limit":
                await self.store.limit([name], None, StoredLimit(5))
                await self._healthy(job(name))
            case "lanes":
                await self._healthy(job(name, fair="a"), job(name, fair="b"))
            case "turn" | "share":
                self._holders += await self._claimed(job(name, fair="a"))
                await self._healthy(job(name, fair="a"), job(name, fair="b"), job(name))

    async def _claimed(self, new: NewJob) -> list[Any]:
        """A healthy job that runs until the worker starts."""
        await self._healthy(new)
        return list((await self.store.claim([new.queue], 1, LONG, "w")).claims)

    async def spoil(self) -> None:
        """What is spoiled may still be a record that can be read (a text in place of another):
        those need not end."""
        self.broken = await self.layout.spoil(self.broken)
        found = await self.store.find([one.id for one in self.broken])
        self.unreadable = [job.id for job in found if job is not None and is_unreadable(job)]

    # ------------------------------------------------------------ after

    async def look(self) -> None:
        """Everything that only looks. None of it may raise, and what it shows must be fit to be
        shown."""
        store, app = self.store, self.app
        for view in await app.queues():
            assert view.oldest is None or isinstance(view.oldest, int)
        await app.counts()
        for want in (
            JobFilter(),
            *(JobFilter(state=state) for state in State),
            JobFilter(queue="mail"),
        ):
            after, pages = None, 0
            while True:
                page = await store.page(want, after, 200)
                after, pages = page.after, pages + 1
                assert pages < 200, f"the pages of {want} do not end"
                if after is None:
                    break
        shown = await app.jobs(limit=1000)
        assert shown.jobs
        for one in self.broken[::15]:
            record = await app.get(one.id)
            if record is not None:
                await app.explain(one.id)
                await store.timeline(one.id)
        for id in self.waiting[::3]:
            if await app.get(id) is not None:
                await app.explain(id)
        await store.find([one.id for one in self.broken])
        await store.resources()
        await store.resources("mail")
        await store.workers()
        await app.repeats.all()
        await store.due_repeats(10)
        await store.queue_names()
        await store.subscribed_queues()
        await store.doctor()

    async def amend(self) -> None:
        """Every change of a broken job gets an answer."""
        some = [one.id for one in self.broken if one.role in ("plain", "ended")][::7]
        for change in (PrioritiseJob(4), RewriteJob(b"\x90"), RetryJob(NOW), CancelJob(HOUR)):
            assert all(
                isinstance(answer, Answer) for answer in await self.store.amend(some, change)
            )

    async def signal(self) -> None:
        """Every waiting job gets its signal, or an answer that says why not."""
        answers = await self.store.amend(self.waiting, SIGNAL)
        assert len(answers) == len(self.waiting)
        assert answers[-3:] == [Answer.DONE] * len(self.waiting[-3:])
        assert Answer.TAKEN not in answers

    async def arrive(self) -> None:
        """Every step is told that its other predecessor has ended, or an answer says why not."""
        answers = await self._arrive("two")
        assert len(answers) == len(self.steps)
        assert answers[-3:] == [Answer.DONE] * len(self.steps[-3:])

    async def run(self) -> None:
        """A real worker, until everything healthy is done. It must not end and not stand still."""

        @self.app.task(name="send")
        async def send() -> None: ...

        for start in range(0, len(self._holders), 100):
            done = [
                Settlement(claim, success(b"\xc0", HOUR))
                for claim in self._holders[start : start + 100]
            ]
            await self.store.settle(done)
        worker = self.app.worker(lease=2, concurrency=50)
        running = asyncio.create_task(worker.run())
        deadline = asyncio.get_running_loop().time() + PATIENCE
        try:
            while left := await self._left():
                if running.done():
                    running.result()
                    raise AssertionError("the worker has left")
                if asyncio.get_running_loop().time() > deadline:
                    raise AssertionError(await self._left_text(left))
                await asyncio.sleep(0.1)
        finally:
            worker.stop()
            await asyncio.gather(running, return_exceptions=True)

    async def drive(self) -> None:
        """The verbs of a worker, one after the other, until everything healthy is done."""
        store = self.store
        done = success(b"\xc0", HOUR)
        back = Verdict(state=State.QUEUED)
        await self.signal()
        await self.arrive()
        await store.settle([Settlement(claim, done) for claim in self._holders])
        deadline = asyncio.get_running_loop().time() + PATIENCE
        while left := await self._left():
            if asyncio.get_running_loop().time() > deadline:
                raise AssertionError(await self._left_text(left))
            turn = await store.claim(await store.queue_names(), 100, LONG, "w")
            await store.extend(turn.claims, LONG)
            await store.settle([Settlement(claim, done) for claim in turn.claims])
            await store.settle(
                [Settlement(claim, back) for claim in await store.reap(100, LONG, "w")]
            )

    async def _left(self) -> list[str]:
        """Healthy jobs that have not succeeded, and broken ones that are still in the way."""
        healthy = await self.store.find(self.healthy)
        left = [
            id
            for id, job in zip(self.healthy, healthy, strict=True)
            if job is None or job.state is not State.SUCCEEDED
        ]
        found = await self.store.find(self.unreadable)
        return left + [job.id for job in found if job is not None and job.state not in TERMINAL]

    async def _left_text(self, left: list[str]) -> str:
        cases = {one.id: f"{one.role} {one.case}" for one in self.broken}
        jobs = [job for job in await self.store.find(left[:20]) if job is not None]
        lines = [
            f"{job.id} {job.state} {job.queue} {job.resource} {cases.get(job.id, 'healthy')}"
            for job in jobs
        ]
        return "\n".join([f"{len(left)} did not end:", *lines])

    async def check(self) -> None:
        """Each broken job can be seen; one that cannot be read with its reason and its bytes."""
        found = await self.store.find([one.id for one in self.broken])
        for one, job in zip(self.broken, found, strict=True):
            if job is None:
                assert one.case.field in self.layout.identity, (
                    f"{one.case} is not to be seen any more"
                )
            elif is_unreadable(job):
                assert await self.store.raw(one.id), f"{one.role} {one.case} cannot be exported"
        [records] = [finding for finding in await self.store.doctor() if finding.what == "records"]
        lost = [
            job
            for job in found
            if job is not None and is_unreadable(job) and "without a" not in (job.error or "")
        ]
        assert "cannot be read" in records.found or not lost, (
            f"the doctor does not see {lost[0].error}"
        )

    async def delete(self) -> None:
        """A job that cannot be read can be deleted, as any other that has ended."""
        found = await self.store.find(self.unreadable)
        ids = [job.id for job in found if job is not None and job.state in TERMINAL]
        answers = await self.store.amend(ids, DeleteJob())
        kept = [job.id for job in await self.store.find(ids) if job is not None]
        assert set(answers) <= {Answer.DONE}, f"{answers}"
        assert not kept, await self._left_text(kept)


class One:
    """A layout of which only one case matters."""

    def __init__(self, layout: Layout, role: str, case: Case) -> None:
        self._layout, self._role, self._case = layout, role, case
        self.identity = layout.identity

    def job_cases(self, role: str) -> list[Case]:
        return [self._case] if role == self._role else []

    def other_cases(self) -> list[Case]:
        return []

    async def spoil(self, broken: Sequence[Broken]) -> list[Broken]:
        return await self._layout.spoil(broken)

    async def spoil_others(self, cases: Sequence[Case], ids: Sequence[str]) -> None: ...


async def alone(url: str, layout: Layout, role: str, n: int) -> None:
    """One case by itself: nothing else that is broken there can be the reason that it is found. `n`
    says which."""
    app = Mita(url)
    store = await app.open_store()
    try:
        cases = layout.job_cases(role)
        field = Field(app, store, One(layout, role, cases[n % len(cases)]))
        await field.prepare([role])
        await field.spoil()
        try:
            await field.drive()
            await field.check()
            await field.delete()
        except Exception as error:  # noqa: BLE001 - whatever it is, the case belongs to it
            raise AssertionError(
                f"{role} {[str(one.case) for one in field.broken]}: {error!r}"
            ) from None
    finally:
        await store.close()
        await app.close()


async def shake(url: str, layout: Layout, roles: Sequence[str]) -> None:
    """The whole of it, over one store."""
    app = Mita(url)
    store = await app.open_store()
    try:
        field = Field(app, store, layout)
        await field.prepare(roles)
        cases = await field.others()
        await field.look()
        await field.spoil()
        assert field.unreadable, "not one of them was found out"
        await layout.spoil_others(cases, field.healthy)
        await field.look()
        await field.amend()
        await field.signal()
        await field.arrive()
        await field.run()
        await field.look()
        await field.check()
        await field.delete()
        await store.prune(1000, 10**6)
    finally:
        await store.close()
        await app.close()


ROLES = ("plain", "keyed", "running", "blocked", "ended", "waiting", "told")
