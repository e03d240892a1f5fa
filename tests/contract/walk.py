"""A random walk over every verb, which asserts that a store and the model give the same answers."""

import asyncio
import tempfile
from collections.abc import Awaitable, Callable, Sequence
from operator import methodcaller
from pathlib import Path
from typing import Any, ClassVar, TypeVar

from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule
from msgspec.structs import replace

from mita.model.flow import Arrival
from mita.model.gate import StoredLimit
from mita.model.history import RunCounts
from mita.model.job import Claim, Job, NewJob, State
from mita.model.outcome import Change, ClaimResult, Progress, Settlement, Verdict
from mita.model.repeat import Firing, Repeat, RepeatState
from mita.model.time import LATEST, When
from mita.model.view import JobFilter, Page, WorkerView
from mita.ports.store import OnceValue, Store
from mita.stores.memory import MemoryStore
from mita.testing.contract.clocks import FakeTicker

from . import steps
from .stores import Handles

T = TypeVar("T")
# a walk is about answers and not about disks
IN_MEMORY = "/dev/shm" if Path("/dev/shm").is_dir() else None
Pair = tuple[Claim, Claim]  # one claim, as the store and as the model gave it


class Walk(RuleBasedStateMachine):
    """`make` makes the store under test; the model beside it lives on the same clock."""

    make: ClassVar[Callable[[Path, FakeTicker], Handles]]

    def __init__(self) -> None:
        super().__init__()
        self.loop = asyncio.new_event_loop()
        self.folder = tempfile.TemporaryDirectory(dir=IN_MEMORY)
        self.clock = FakeTicker()
        self.store: Store = type(self).make(Path(self.folder.name), self.clock)()
        self.model: Store = MemoryStore(clock=self.clock)
        self.together = True
        self.groups = False
        self.ids: list[str] = []
        self.jobs: dict[str, Job] = {}
        self.pairs: list[Pair] = []
        # the model's, by id and token of the store's claim
        self.tokens: dict[tuple[str, int], int] = {}
        self.firings: list[Firing] = []
        self.run(self.store.open())
        self.run(self.model.open())

    def teardown(self) -> None:
        try:
            if self.together:
                self.look_closely()
        finally:
            self.run(self.store.close())
            self.loop.close()
            self.folder.cleanup()

    # ------------------------------------------------------------ asking both

    def run(self, what: Awaitable[T]) -> T:
        return self.loop.run_until_complete(what)

    def compare(self, said: object, expected: object) -> None:
        self.together = said == expected
        assert said == expected

    def both(self, ask: Callable[[Store], Awaitable[T]]) -> T:
        """The one answer of both."""
        said, expected = (
            self.as_the_model_says(self.run(ask(self.store))),
            self.run(ask(self.model)),
        )
        self.compare(said, expected)
        return said

    def as_the_model_says(self, said: T) -> T:
        """A token is whatever a store likes, as long as it grows: jobs are compared by the model's
        for the same claim."""
        answer: Any = said
        match answer:
            case Job(id=id, token=token):
                answer = replace(answer, token=self.tokens.get((id, token), token))
            case Page(jobs=jobs):
                answer = replace(answer, jobs=self.as_the_model_says(jobs))
            case [*each]:
                answer = type(answer)(map(self.as_the_model_says, each))
        return answer  # type: ignore[no-any-return]

    def each(
        self, ask: Callable[[Store, list[Claim]], Awaitable[T]], pairs: Sequence[Pair]
    ) -> tuple[T, T]:
        """The two answers to a question about claims, each store asked with its own."""
        said = self.run(ask(self.store, [ours for ours, _ in pairs]))
        return said, self.run(ask(self.model, [theirs for _, theirs in pairs]))

    def agree(
        self, ask: Callable[[Store, list[Claim]], Awaitable[T]], pairs: Sequence[Pair]
    ) -> None:
        said, expected = self.each(ask, pairs)
        self.compare(said, expected)

    def took_over(self, said: list[Claim], expected: list[Claim]) -> None:
        """New claims must be equal but for the handle that only their store understands, and for
        the token, which grows."""
        self.compare(
            *(
                [replace(claim, ref=None, token=0) for claim in claims]
                for claims in (said, expected)
            )
        )
        for ours, theirs in zip(said, expected, strict=True):
            assert ours.token > max(
                (token for id, token in self.tokens if id == ours.id), default=0
            )
            self.tokens[ours.id, ours.token] = theirs.token
            self.pairs.append((ours, theirs))

    def turned(self, said: ClaimResult, expected: ClaimResult) -> None:
        self.took_over(said.claims, expected.claims)
        self.compare((said.took, said.again), (expected.took, expected.again))

    # ------------------------------------------------------------ choosing

    def pick(self, picks: list[int]) -> list[Pair]:
        """Claims by number, counted back from the newest: odd numbers from all, which are mostly
        stale by now, even ones from those that hold."""
        held = [pair for pair in self.pairs if self.holds(pair[1])] or self.pairs
        return [
            line[-1 - n // 2 % len(line)] for n in picks for line in [self.pairs if n % 2 else held]
        ]

    def holds(self, claim: Claim) -> bool:
        job = self.jobs.get(claim.id)
        return job is not None and job.state is State.RUNNING and job.token == claim.token

    def named(self, picks: list[int]) -> list[str]:
        """Ids by number, counted back from the newest; 0 is nobody's."""
        there = list(self.jobs)
        return [there[-(1 + n % len(there))] if n and there else "f" * 32 for n in picks]

    def fresh_id(self) -> str:
        self.ids.append(f"{len(self.ids) + 1:032x}")
        return self.ids[-1]

    def aimed(self, when: When) -> When:
        """Moments are drawn as distances from now."""
        if when.at is None or when.at == LATEST:
            return when
        return When(at=self.clock.now() + when.at)

    # ------------------------------------------------------------ jobs

    @initialize(groups=st.booleans())
    def choose(self, groups: bool) -> None:
        """A queue without groups is claimed in another way, so half of the walks have none."""
        self.groups = groups

    def made(self, draft: NewJob, **more: Any) -> NewJob:
        """A new job of this draft."""
        fair = draft.fair if self.groups else None
        if draft.when == steps.UNTIL_TOLD:  # a step of a flow has no unique key
            more |= {"unique": None, "throttle": 0, "debounce": 0}
        return replace(draft, id=self.fresh_id(), fair=fair, **more)

    def take_in(self, drafts: list[NewJob]) -> None:
        jobs = [self.made(draft, when=self.aimed(draft.when)) for draft in drafts]
        self.both(lambda store: store.enqueue(jobs))

    @rule(drafts=steps.BATCHES, again=st.integers(0, 3))
    def enqueue(self, drafts: list[NewJob], again: int) -> None:
        self.take_in(drafts)
        if again == 0:
            id = self.ids[len(self.ids) // 2]
            twice = replace(drafts[0], id=id, queue="never seen", when=When(5), fresh=False)
            self.both(lambda store: store.enqueue([twice, twice]))

    @rule(drafts=steps.BATCHES, queues=steps.QUEUES, limit=st.integers(1, 4))
    def enqueue_and_claim(self, drafts: list[NewJob], queues: list[str], limit: int) -> None:
        self.take_in(drafts)
        self.claim_from(queues, limit, 40)

    @rule(queues=steps.QUEUES, limit=steps.LIMITS, lease=steps.LEASES)
    def claim(self, queues: list[str], limit: int, lease: int) -> None:
        self.claim_from(queues, limit, lease)

    def claim_from(self, queues: list[str], limit: int, lease: int) -> None:
        self.turned(*self.each(lambda store, _: store.claim(queues, limit, lease, "w1"), []))

    @precondition(lambda self: self.pairs)
    @rule(picks=steps.PICKS, verdicts=steps.THREE_VERDICTS)
    def settle(self, picks: list[int], verdicts: list[Verdict]) -> None:
        self.agree(
            lambda store, claims: store.settle(self.endings(claims, verdicts)), self.pick(picks)
        )

    @precondition(lambda self: self.pairs)
    @rule(picks=steps.PICKS, verdicts=steps.THREE_VERDICTS, queues=steps.QUEUES, limit=steps.LIMITS)
    def settle_and_claim(
        self, picks: list[int], verdicts: list[Verdict], queues: list[str], limit: int
    ) -> None:
        self.turned(
            *self.each(
                lambda store, claims: store.settle_and_claim(
                    self.endings(claims, verdicts), queues, limit, 40, "w2"
                ),
                self.pick(picks),
            )
        )

    def endings(self, claims: list[Claim], verdicts: list[Verdict]) -> list[Settlement]:
        return [
            Settlement(claim, self.fitting(claim, verdict))
            for claim, verdict in zip(claims, verdicts, strict=False)
        ]

    def fitting(self, claim: Claim, verdict: Verdict) -> Verdict:
        """Only a job with a key can be blocked, and a group has jobs of one task."""
        if verdict.group is not None:
            verdict = replace(verdict, group=steps.GROUPS[claim.task])
        if verdict.state is State.BLOCKED and claim.resource is None and not claim.gates:
            return replace(verdict, state=State.QUEUED, hold=None)
        return verdict

    @precondition(lambda self: self.pairs)
    @rule(picks=steps.PICKS, lease=steps.LEASES)
    def extend(self, picks: list[int], lease: int) -> None:
        self.agree(lambda store, claims: store.extend(claims, lease), self.pick(picks))

    @rule(limit=st.integers(1, 3), ms=st.sampled_from([0, 40]))
    def reap(self, limit: int, ms: int) -> None:
        self.run(self.clock.tick(ms))
        self.took_over(*self.each(lambda store, _: store.reap(limit, 40, "heir"), []))

    @precondition(lambda self: self.jobs)
    @rule(picks=steps.PICKS, change=steps.CHANGES)
    def amend(self, picks: list[int], change: Change) -> None:
        ids = self.named(picks)
        self.both(lambda store: store.amend(ids, change))
        self.both(lambda store: store.once_values(ids[0]))

    @precondition(lambda self: self.jobs)
    @rule(told=steps.TOLD)
    def arrive(self, told: list[tuple[int, str, bytes]]) -> None:
        """Tell jobs that wait for others, and at times any job: one that has ended, one that never
        waited, one that is gone. How many it needs is fixed for each job."""
        waiting = [job.id for job in self.jobs.values() if job.due == LATEST]
        arrivals: list[Arrival] = []
        for pick, sender, value in told:
            id = waiting[pick % len(waiting)] if waiting and pick % 3 else self.named([pick])[0]
            queue = self.jobs[id].queue if id in self.jobs else "a"
            arrivals.append(Arrival(queue, id, sender, value, 1 + int(id, 16) % 3))
        self.both(lambda store: store.arrive(arrivals))
        for arrival in arrivals:
            self.both(methodcaller("once_values", arrival.receiver))

    @precondition(lambda self: self.pairs)
    @rule(
        picks=steps.PICKS,
        name=steps.NAMES,
        keep=st.sampled_from([None, 30]),
        text=st.sampled_from([b"1", b"2"]),
    )
    def write_down(self, picks: list[int], name: str, keep: int | None, text: bytes) -> None:
        pairs = self.pick(picks)
        self.agree(
            lambda store, claims: store.progress([Progress(claim, text) for claim in claims]), pairs
        )
        self.agree(
            lambda store, claims: store.store_once(
                OnceValue(claim=claims[0], name=name, value=text, keep=keep)
            ),
            pairs,
        )
        self.agree(lambda store, claims: store.load_once(claims[-1], name, keep is not None), pairs)

    # ------------------------------------------------------------ time and care

    @rule(ms=st.sampled_from([1, 10, 20, 40, 100]))
    def tick(self, ms: int) -> None:
        self.run(self.clock.tick(ms))

    @rule(
        act=st.sampled_from(["hold", "hold", "resume", "resume", "pause"]),
        queues=steps.QUEUES,
        key=steps.KEYS,
        until=steps.WHENS,
    )
    def stop_or_go(self, act: str, queues: list[str], key: str, until: When) -> None:
        if act == "hold":
            self.both(lambda store: store.hold(queues, key, self.aimed(until)))
        else:
            self.both(methodcaller(act, queues))

    @rule(queues=steps.QUEUES, limited=steps.LIMITED)
    def limit(self, queues: list[str], limited: tuple[str | None, StoredLimit | None]) -> None:
        self.both(lambda store: store.limit(queues, *limited))

    @rule(ageing=steps.AGEINGS)
    def set_ageing(self, ageing: int | None) -> None:
        self.store.ageing = self.model.ageing = ageing

    @rule(
        limit=st.integers(1, 3),
        most=st.integers(0, 3),
        id=st.sampled_from(["w1", "w2"]),
        leaves=st.booleans(),
    )
    def care(self, limit: int, most: int, id: str, leaves: bool) -> None:
        worker = WorkerView(
            id=id, name="n", host="h", pid=1, queues=("a",), tasks=("t",), slots=most
        )
        self.both(lambda store: store.prune(limit, most))
        self.both(methodcaller("leave", id) if leaves else methodcaller("beat", worker, 50))
        counts = RunCounts(queue="a", task=id, succeeded=limit, failed=most, wait_ms=len(self.ids))
        self.both(lambda store: store.count_runs([counts]))
        self.both(methodcaller("unlock", "l", id) if leaves else methodcaller("lock", "l", id, 30))

    # ------------------------------------------------------------ repeats

    @rule(
        given=steps.REPEATS,
        act=st.sampled_from([None, None, "remove_repeats", "pause_repeats", "resume_repeats"]),
        reason=st.sampled_from(["", "it failed"]),
    )
    def edit_repeats(self, given: Repeat, act: str | None, reason: str) -> None:
        cursor = None if given.cursor is None else self.clock.now() + given.cursor
        if act is None:
            self.both(lambda store: store.put_repeat(replace(given, cursor=cursor)))
        elif act == "pause_repeats":
            self.both(lambda store: store.pause_repeats([given.key], reason))
        else:
            self.both(methodcaller(act, [given.key]))

    @rule(given=steps.REPEATS, failed=st.sampled_from([True, True, False]))
    def report_repeat(self, given: Repeat, failed: bool) -> None:
        self.both(lambda store: store.report_repeat(given.key, failed))

    @rule(
        limit=st.integers(1, 2),
        draft=steps.DRAFTS,
        last=st.booleans(),
        ends=st.integers(0, 4),
        picks=steps.FIRINGS,
    )
    def fire(self, limit: int, draft: NewJob, last: bool, ends: int, picks: list[int]) -> None:
        """What is due becomes firings, which are fired now, later, twice or never."""
        for repeat in self.both(lambda store: store.due_repeats(limit)).repeats:
            self.firings.append(self.planned(repeat, draft, last, ends))
        if self.firings:
            chosen = [self.firings[-1 - n % len(self.firings)] for n in picks]
            self.both(lambda store: store.fire(chosen))

    def planned(self, repeat: Repeat, draft: NewJob, last: bool, ends: int) -> Firing:
        assert repeat.cursor is not None
        return Firing(
            key=repeat.key,
            cursor=repeat.cursor,
            revision=repeat.revision,
            next=None if ends == 0 else repeat.cursor + 15 * ends,
            fired=ends,
            last=repeat.cursor if last else None,
            jobs=(
                self.made(
                    draft,
                    repeat=repeat.key,
                    fire_time=repeat.cursor,
                    when=When(5),
                ),
            ),
            state=RepeatState.FINISHED if ends == 0 else RepeatState.ACTIVE,
            reason="over" if ends == 0 else "",
        )

    # ------------------------------------------------------------ looking

    @invariant()
    def all_jobs_are_alike(self) -> None:
        found = self.both(lambda store: store.find(self.ids))
        self.jobs = {job.id: job for job in found if job is not None}

    @rule(want=steps.FILTERS, limit=st.integers(1, 3), pick=st.integers(0, 9))
    def look_around(self, want: JobFilter, limit: int, pick: int) -> None:
        after = self.named([pick])[0] if pick else None
        self.both(lambda store: store.page(want, after, limit))
        self.look_at_groups(want.queue, want.task, limit)
        self.look_at_all()

    def look_at_groups(self, queue: str | None, task: str | None, limit: int) -> None:
        """Of several jobs that failed last, any may be the sample."""
        said, expected = (
            self.run(store.dead_groups(queue, task, limit)) for store in (self.store, self.model)
        )
        for group in (*said, *expected):
            job = self.jobs[group.sample]
            assert (job.group or "", job.finished) == (group.group, group.last)
        self.compare(*([replace(one, sample="") for one in groups] for groups in (said, expected)))

    def look_at_all(self) -> None:
        self.both(lambda store: store.queues())
        self.both(lambda store: store.queue_names())
        self.both(lambda store: store.resources())
        self.both(lambda store: store.list_repeats())
        self.both(lambda store: store.workers())
        for hourly in (False, True):
            self.both(methodcaller("run_history", 0, hourly, None, None))

    def look_closely(self) -> None:
        self.look_at_groups(None, None, 100)
        self.look_at_all()
        for id in self.ids:
            self.both(methodcaller("timeline", id))
            self.both(methodcaller("ahead", id))
