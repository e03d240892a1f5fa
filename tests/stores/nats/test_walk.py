"""Random walks in real time. Within a priority this store may choose another job than the model, so
it is not compared with the model. Instead each answer says what must be true of a job from then on,
and the records of keys must agree with the jobs. `MITA_SEED=n` chooses another walk."""

import asyncio
import os
import random
from collections import Counter as Counters
from typing import Any

import pytest

from mita.model.flow import Arrival, FlowPlace
from mita.model.gate import Gate, StoredLimit
from mita.model.job import PRIORITIES, Claim, Job, NewJob, State, WhenBusy
from mita.model.outcome import (
    Answer,
    CancelJob,
    Change,
    Counter,
    DeleteJob,
    Held,
    PrioritiseJob,
    Progress,
    RescheduleJob,
    RetryJob,
    Settlement,
    SignalJob,
    TimelineKind,
    Verdict,
)
from mita.model.time import HOUR, LATEST, NOW, When
from mita.ports.ids import new_id
from mita.ports.store import OnceValue
from mita.rules.durable import ARRIVAL, arrival_name, signal_name, wait_name
from mita.rules.gates import keys_of
from mita.rules.judge import success
from mita.rules.options import with_flow
from mita.rules.states import TERMINAL
from mita.stores.nats import NatsStore, control
from mita.stores.nats.stream import job_records
from mita.stores.nats.stream.subjects import RecordKind

SEED = int(os.environ.get("MITA_SEED", "1"))
STEPS = 120
QUEUES = ["a", "b"]
GATES: list[tuple[Gate, ...]] = [
    *((), (), (), (), (Gate("g", 1),), (Gate("g", 1), Gate("h", 2))),
    *((Gate("rate", None, 30_000, 2),), (Gate("rate", None, 30_000, 2), Gate("s", 2))),
]
TWINS: list[dict[str, Any]] = [
    *({}, {}, {"unique": "u"}, {"unique": "v"}),
    *({"unique": "d", "debounce": 100, "debounce_max": 300}, {"unique": "t", "throttle": 150}),
]


UNTIL_TOLD = When(at=LATEST)


def needs_of(id: str) -> int:
    """How many jobs must tell this one."""
    return 1 + int(id, 16) % 3


class Walk:
    """One walk with two handles on the same data. `jobs` are as they were last read. `slow`: jobs
    wait long for their claim, and are changed meanwhile."""

    def __init__(self, stores: list[NatsStore], seed: int, *, slow: bool) -> None:
        self.chance = random.Random(seed)
        self.stores = stores
        self.slow = slow
        self.ids: list[str] = []
        self.jobs: dict[str, Job] = {}
        self.may_be_gone: set[str] = set()
        self.claims: list[Claim] = []
        self.most_running: int | None = None  # in the queue "a"
        self.signalled: set[tuple[str, str]] = set()
        self.waits: set[tuple[str, str]] = set()
        self.told: dict[tuple[str, str], bytes] = {}  # values by receiver and sender

    @property
    def store(self) -> NatsStore:
        return self.chance.choice(self.stores)

    async def step(self) -> None:
        acts = (
            [self.enqueue] * 3
            + [self.claim] * (1 if self.slow else 4)
            + [self.settle] * 5
            + [self.amend] * (8 if self.slow else 3)
            + [self.keep] * 2
            + [self.arrive] * (6 if self.slow else 3)
        )
        await self.chance.choice([*acts, self.reap, self.hold, self.pause, self.limit])()
        await self.look()

    async def look(self) -> None:
        found = await self.store.find(self.ids)
        self.jobs = {job.id: job for job in found if job is not None}
        assert set(self.ids) - set(self.jobs) <= self.may_be_gone, "I1: a job is lost"

    def holds(self, claim: Claim) -> bool:
        job = self.jobs.get(claim.id)
        return job is not None and job.state is State.RUNNING and job.token == claim.token

    # ------------------------------------------------------------ steps

    async def enqueue(self) -> None:
        pick = self.chance.choice
        jobs = [
            self.waiting()
            if self.chance.random() < 0.25
            else NewJob(
                **pick(TWINS),
                id=new_id(),
                task="t",
                queue=pick(["a", "a", "b"]),
                payload=b"\x00\xff",
                priority=pick([PRIORITIES[0], 0, 5, 5, 9, PRIORITIES[-1]]),
                when=pick([NOW, NOW, When(20), When(150), When(400)]),
                unique_for=pick([0, 0, 100]),
                gates=pick(GATES),
                fair=pick([None, None, "x", "y"]),
                weight=pick([1000, 1000, 3000]),
                resource=pick([None, "r", "r", "s"]),
                limit=pick([1, 1, 2]),
                when_busy=pick(
                    [WhenBusy.WAIT, WhenBusy.WAIT, WhenBusy.WAIT, WhenBusy.SKIP, WhenBusy.REPLACE]
                ),
            )
            for _ in range(self.chance.randint(1, 4))
        ]
        receipts = await self.store.enqueue(jobs)
        for job, receipt in zip(jobs, receipts, strict=True):
            assert receipt.created == (receipt.id == job.id)
            assert receipt.created or job.unique is not None
            self.ids += [job.id] if receipt.created else []

    def waiting(self) -> NewJob:
        """A job that waits until others have told it."""
        pick = self.chance.choice
        return NewJob(
            id=new_id(),
            task="t",
            queue=pick(["a", "a", "b"]),
            payload=b"",
            options=with_flow(b"", FlowPlace("f", 2, 2)),
            priority=pick([PRIORITIES[0], 5, PRIORITIES[-1]]),
            when=UNTIL_TOLD,
            gates=pick(GATES),
            resource=pick([None, "r"]),
            fresh=pick([True, False]),
        )

    async def arrive(self) -> None:
        """Tell jobs that wait for others, and at times any job, in one call."""
        if not self.jobs:
            return
        waits = [job.id for job in self.jobs.values() if job.due == LATEST]
        arrivals: list[Arrival] = []
        for _ in range(self.chance.randint(1, 4)):
            some = waits if waits and self.chance.random() < 0.7 else list(self.jobs)
            job, value = self.jobs[self.chance.choice(some)], self.chance.choice([b"", b"told"])
            sender = self.chance.choice("abc")
            arrivals.append(Arrival(job.queue, job.id, sender, value, needs_of(job.id)))
        before = {arrival.receiver: self.jobs[arrival.receiver] for arrival in arrivals}
        expected = [self.expected(arrival, before[arrival.receiver]) for arrival in arrivals]
        store = self.store
        assert await store.arrive(arrivals) == expected
        await self.look()
        for id, job in before.items():
            await self.check_told(
                job,
                Answer.DONE
                in [
                    answer
                    for one, answer in zip(arrivals, expected, strict=True)
                    if one.receiver == id
                ],
            )

    def expected(self, arrival: Arrival, job: Job) -> Answer:
        """The answer to an arrival, which is noted."""
        if job.state is State.SUCCEEDED:
            return Answer.TOO_LATE
        known = (job.id, arrival.sender) in self.told
        self.told.setdefault((job.id, arrival.sender), arrival.value)
        return Answer.TAKEN if known else Answer.DONE

    async def check_told(self, before: Job, is_new: bool) -> None:
        """What the job was told is kept by sender, and the last word makes a queued job due."""
        after, values = self.jobs[before.id], await self.store.once_values(before.id)
        told = {sender: value for (id, sender), value in self.told.items() if id == before.id}
        kept = {name: value for name, value in values.items() if name.startswith(ARRIVAL)}
        assert kept == {arrival_name(sender): value for sender, value in told.items()}
        assert after.state is before.state
        if is_new and before.state is State.QUEUED and len(told) >= needs_of(before.id):
            assert after.due <= before.due
            assert after.due < await self.store.now() + 1
        else:
            assert after.due == before.due

    async def claim(self) -> None:
        store = self.store
        store.ageing = self.chance.choice([None, 50])
        paused = {view.name for view in await store.queues() if view.paused is not None}
        turn = await store.claim(
            QUEUES, self.chance.randint(0, 5), self.chance.choice([300, HOUR]), "w"
        )
        for claim in turn.claims:
            assert claim.at >= claim.due, "I8"
            assert claim.queue not in paused
            assert self.jobs[claim.id].state in (State.QUEUED, State.BLOCKED)
            assert claim.token == self.jobs[claim.id].token + 1
        self.claims += turn.claims
        if turn.claims and self.most_running is not None:
            await self.look()
            running = [job for job in self.jobs.values() if job.state is State.RUNNING]
            started = sum(claim.queue == "a" for claim in turn.claims)
            of_queue = sum(job.queue == "a" for job in running)
            assert started == 0 or of_queue <= self.most_running, "more than the limit run"

    async def settle(self) -> None:
        if not self.claims:
            return
        picked = self.chance.sample(self.claims, min(len(self.claims), self.chance.randint(1, 4)))
        before = {claim.id: self.jobs.get(claim.id) for claim in picked}
        verdicts = [self.verdict(claim) for claim in picked]
        for claim, verdict in zip(picked, verdicts, strict=True):
            if verdict.waits is not None:
                await self.begin_to_wait(claim, verdict.waits)
        expected: list[bool] = []
        seen: set[str] = set()
        for claim in picked:
            expected.append(self.holds(claim) and claim.id not in seen)
            seen |= {claim.id} if expected[-1] else set()
        settlements = [Settlement(c, v) for c, v in zip(picked, verdicts, strict=True)]
        self.may_be_gone |= {
            claim.id
            for claim, verdict in zip(picked, verdicts, strict=True)
            if verdict.state in TERMINAL and verdict.keep == 0
        }
        took = await self.store.settle(settlements)
        assert took == expected, "I3"
        await self.look()
        for claim, verdict, ended in zip(picked, verdicts, took, strict=True):
            if ended:
                self.check_ending(claim, verdict, before[claim.id])

    async def begin_to_wait(self, claim: Claim, name: str) -> None:
        value = OnceValue(claim=claim, name=wait_name(name), value=b"\x00")
        stored = await self.store.store_once(value)
        assert (stored is not None) == self.holds(claim)
        if stored is not None:
            self.waits.add((claim.id, name))

    def verdict(self, claim: Claim) -> Verdict:
        pick = self.chance.choice
        keep = pick([0, HOUR, HOUR])
        options = [
            success(b"r", keep),
            success(b"r", HOUR),
            Verdict(
                state=State.FAILED,
                counts=Counter.ATTEMPTS,
                error="Boom",
                keep=keep,
                event=TimelineKind.FAILED,
            ),
            Verdict(
                state=State.QUEUED,
                when=pick([NOW, When(100)]),
                counts=Counter.ATTEMPTS,
                error="Bang",
                event=TimelineKind.RETRIED,
            ),
            Verdict(
                state=State.QUEUED,
                when=When(350),
                counts=Counter.RESCHEDULES,
                event=TimelineKind.RESCHEDULED,
            ),
            Verdict(state=State.QUEUED, unstarted=pick([True, False])),
            Verdict(
                state=State.QUEUED,
                when=When(HOUR),
                waits=pick(["x", "y"]),
                counts=Counter.RESCHEDULES,
                event=TimelineKind.WAITING,
            ),
        ]
        if claim.resource is not None or claim.gates:
            options.append(
                Verdict(
                    state=State.BLOCKED,
                    hold=When(100),
                    counts=Counter.BUSY,
                    event=TimelineKind.UNAVAILABLE,
                )
            )
        return pick(options)

    def check_ending(self, claim: Claim, verdict: Verdict, before: Job | None) -> None:
        after = self.jobs.get(claim.id)
        assert before is not None
        if after is None:
            assert verdict.keep == 0 or before.asked == "cancel"
            return
        if before.asked == "cancel":
            assert after.state is State.CANCELLED
        elif before.asked == "reschedule":
            assert after.state is State.QUEUED
        elif verdict.state in TERMINAL:
            assert after.state is verdict.state
        else:
            assert after.state in (State.QUEUED, State.BLOCKED)
        if verdict.waits is not None and before.asked is None:
            came = (claim.id, verdict.waits) in self.signalled
            assert (after.due < claim.at + HOUR // 2) == came, "a signal was lost at its wait"
        assert after.attempts == before.attempts + (verdict.counts is Counter.ATTEMPTS), "I6"
        assert after.reschedules == before.reschedules + (verdict.counts is Counter.RESCHEDULES)
        assert after.error == (verdict.error or before.error)
        assert after.asked is None

    async def amend(self) -> None:
        if not self.jobs:
            return
        id = self.chance.choice(list(self.jobs))
        before = self.jobs[id]
        keep = self.chance.choice([0, HOUR])
        changes: list[Change] = [
            RescheduleJob(NOW),
            RescheduleJob(When(300)),
            CancelJob(keep=keep),
            RetryJob(NOW),
            RetryJob(UNTIL_TOLD),
            PrioritiseJob(9),
            PrioritiseJob(0),
            DeleteJob(),
            *(SignalJob(name, b"go") for name in ("x", "x", "y")),
        ]
        change = self.chance.choice(changes)
        if isinstance(change, DeleteJob) or change == CancelJob(keep=0):
            self.may_be_gone.add(id)
        [answer] = await self.store.amend([id], change)
        await self.look()
        after = self.jobs.get(id)
        if isinstance(change, SignalJob):
            await self.check_signal(before, after, change, answer)
        elif answer in (Answer.TOO_LATE, Answer.TAKEN):
            assert after == before, "I10"
        elif answer is Answer.ASKED:
            assert before.state is State.RUNNING
            assert after is not None
            assert after.asked == ("cancel" if isinstance(change, CancelJob) else "reschedule")
        elif isinstance(change, DeleteJob):
            assert after is None
        elif isinstance(change, CancelJob):
            assert (None if after is None else after.state) is (
                None if keep == 0 else State.CANCELLED
            ), (before, after)
        else:
            assert after is not None
            assert after.state in (State.QUEUED, before.state)
            assert after.priority == (
                change.priority if isinstance(change, PrioritiseJob) else before.priority
            )

    async def check_signal(
        self, before: Job, after: Job | None, change: SignalJob, answer: Answer
    ) -> None:
        known = (before.id, change.name) in self.signalled
        if before.state in TERMINAL:
            assert answer is Answer.TOO_LATE
        else:
            assert answer is (Answer.TAKEN if known else Answer.DONE)
        assert after is not None
        wakes = before.state is State.QUEUED and (before.id, change.name) in self.waits
        if answer is Answer.DONE:
            self.signalled.add((before.id, change.name))
        if answer is Answer.DONE and wakes:
            assert after.due <= before.due
            assert after.due < await self.store.now() + 1
        else:
            assert after.due == before.due
        assert after.state is before.state
        values = await self.store.once_values(before.id)
        there = signal_name(change.name) in values
        assert there == ((before.id, change.name) in self.signalled)

    async def keep(self) -> None:
        if not self.claims:
            return
        claim = self.chance.choice(self.claims)
        if self.chance.random() < 0.5:
            [held] = await self.store.extend([claim], self.chance.choice([300, HOUR]))
            asked = self.jobs[claim.id].asked if self.holds(claim) else None
            expected = (
                (Held.CANCEL if asked == "cancel" else Held.HELD)
                if self.holds(claim)
                else Held.LOST
            )
            assert held is expected
        else:
            assert await self.store.progress([Progress(claim, b"50 %")]) == [self.holds(claim)]

    async def reap(self) -> None:
        await asyncio.sleep(0.35)
        heirs = await self.store.reap(10, HOUR, "heir")
        for heir in heirs:
            assert heir.token == self.jobs[heir.id].token + 1
            lease = self.jobs[heir.id].lease_until
            assert lease is not None
            assert lease <= heir.at
        self.claims += heirs

    async def hold(self) -> None:
        await self.store.hold(
            QUEUES, self.chance.choice(["r", "s"]), self.chance.choice([NOW, When(100)])
        )

    async def pause(self) -> None:
        store, queue = self.store, self.chance.choice(QUEUES)
        await (store.pause([queue]) if self.chance.random() < 0.3 else store.resume(QUEUES))

    async def limit(self) -> None:
        pick, store = self.chance.choice, self.store
        if self.chance.random() < 0.5:
            limit = pick([None, StoredLimit(2), StoredLimit(None, 20_000, 2), StoredLimit(0)])
            await store.limit(QUEUES, pick(["r", "g", "rate"]), limit)
            return
        self.most_running = pick([None, 2, 5])
        rate = pick([0, 10_000])
        limit = None if self.most_running is None else StoredLimit(self.most_running, rate, 3)
        await store.limit(["a"], None, limit)

    # ---------------------------------------------------------- what must always be true

    async def keys_agree(self) -> None:
        """I5 I13"""
        await self.look()
        running = Counters(
            (job.queue, key)
            for job in self.jobs.values()
            if job.state is State.RUNNING
            for key in keys_of(job.resource, job.gates)
        )
        blocked = Counters(
            (job.queue, job.blocked_at) for job in self.jobs.values() if job.state is State.BLOCKED
        )
        assert all(
            job.blocked_at is None or job.state is State.BLOCKED for job in self.jobs.values()
        )
        for view in await self.store.resources():
            assert (len(view.holders), view.waiting) == (
                running[view.queue, view.key],
                blocked[view.queue, view.key],
            )
            assert len(view.holders) <= 2 or view.key == "rate"
        views = await self.store.queues()
        counted = sum(
            view.scheduled
            + view.waiting
            + view.ready
            + view.blocked
            + view.running
            + view.succeeded
            + view.failed
            + view.cancelled
            for view in views
        )
        assert counted == len(self.jobs)
        living = Counters(
            (job.queue, job.unique)
            for job in self.jobs.values()
            if job.unique in ("u", "v") and job.state not in TERMINAL
        )
        assert all(count == 1 for count in living.values())

    async def finish(self) -> None:
        """I1 I9 I12: every job that is left ends when workers run, and no record of a key stays
        behind."""
        store = self.stores[0]
        await store.resume(QUEUES)
        await store.limit(QUEUES, None, None)
        for key in ("r", "g", "rate"):
            await store.limit(QUEUES, key, None)
        for claim in self.claims:
            await store.settle([Settlement(claim, Verdict(state=State.SUCCEEDED, keep=HOUR))])
        for name in ("x", "y"):  # what still waits is woken, by a signal that is there or by this
            await store.amend(list(self.jobs), SignalJob(name, b"at last"))
        waiting = [job for job in self.jobs.values() if job.due == LATEST]
        await store.amend([job.id for job in waiting], RescheduleJob(NOW))
        for _ in range(200):
            turn = await store.claim(QUEUES, 50, HOUR, "w")
            await store.settle(
                [
                    Settlement(claim, Verdict(state=State.SUCCEEDED, keep=HOUR))
                    for claim in turn.claims
                ]
            )
            await store.reap(50, 1, "w")
            await self.look()
            if all(job.state in TERMINAL for job in self.jobs.values()):
                break
            await asyncio.sleep(0.05)
        assert [job for job in self.jobs.values() if job.state not in TERMINAL] == []
        assert await store.resources() == []
        await asyncio.sleep(3.5)
        assert (await store.claim(QUEUES, 50, HOUR, "w")).claims == []  # takes old wake tickets
        await asyncio.sleep(0.2)
        context = store.context
        # claim lists are removed by the first reap after their leases
        subjects = context.subjects
        for pattern in (
            subjects.all_tickets(),
            subjects.all(RecordKind.WAITER),
            subjects.all(RecordKind.RESOURCE_KEY),
            subjects.all(RecordKind.WAKE),
            subjects.all(RecordKind.QUEUE_USE),
        ):
            left = [found.subject for found in await context.reader.all(pattern) if found.body]
            assert left == []


@pytest.mark.parametrize("seed", range(SEED, SEED + 2))
async def test_what_the_answers_say_stays_true(
    store: NatsStore, twin: NatsStore, seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """I1 I3 I5 I6 I8 I10 I13"""
    monkeypatch.setattr(control, "LIMIT_BARRIER_S", 0.05)  # no claim runs beside a limit here
    if slow := seed % 2 == 0:  # so that the server makes tickets of records
        monkeypatch.setattr(job_records, "SAFETY_DELAY_MS", 600)
    print(f"MITA_SEED={seed}, {STEPS} steps")
    walk = Walk([store, twin], seed, slow=slow)
    for at in range(STEPS):
        await walk.step()
        if at % 10 == 9:
            await walk.keys_agree()
    await walk.finish()


async def test_many_workers_at_a_few_keys(store: NatsStore, twin: NatsStore) -> None:
    """I5 I9: never more holders than the limit, and every job runs."""
    jobs = [
        NewJob(
            id=new_id(),
            task="t",
            queue="a",
            payload=b"",
            resource=f"k{at % 3}",
            limit=1 + (at % 3 == 0),
        )
        for at in range(120)
    ]
    await store.enqueue(jobs)
    limits = {job.id: job.limit for job in jobs}
    holding: Counters[str] = Counters()
    done: set[str] = set()

    async def work(handle: NatsStore, name: str) -> None:
        while len(done) < len(jobs):
            turn = await handle.claim(["a"], 5, HOUR, name)
            for claim in turn.claims:
                holding[str(claim.resource)] += 1
                assert holding[str(claim.resource)] <= limits[claim.id], "I5"
            await asyncio.sleep(0.002)
            for claim in turn.claims:
                holding[str(claim.resource)] -= 1
                assert claim.id not in done, "I4"
                done.add(claim.id)
            took = await handle.settle(
                [Settlement(c, Verdict(state=State.SUCCEEDED, keep=HOUR)) for c in turn.claims]
            )
            assert all(took)
            if not turn.claims:
                await handle.wait(["a"], 0.2)

    await asyncio.gather(
        *(work(handle, f"w{at}") for at, handle in enumerate([store, twin, store, twin]))
    )
    assert await store.resources() == []
