"""A random walk over every verb, which asserts that a store and the model give the same answers."""

import asyncio
import tempfile
from collections.abc import Awaitable, Callable, Sequence
from operator import methodcaller
from pathlib import Path
from typing import ClassVar, TypeVar

from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule
from msgspec.structs import replace

from mita.model.job import Claim, NewJob, State
from mita.model.outcome import Change, Progress, Settlement, Turn, Verdict
from mita.model.repeat import Firing, Repeat, RepeatState
from mita.model.time import When
from mita.model.view import JobFilter, WorkerView
from mita.ports.store import Memo, Store
from mita.stores.memory import MemoryStore
from mita.testing.contract.clocks import FakeTicker

from . import steps
from .stores import Handles

T = TypeVar("T")
Pair = tuple[Claim, Claim]  # one claim, as the store and as the model gave it
NAMES = st.sampled_from(["x", "y"])
REPEATS = st.sampled_from(["daily", "hourly"])


class Walk(RuleBasedStateMachine):
    """`make` makes the store under test; the model beside it lives on the same clock."""

    make: ClassVar[Callable[[Path, FakeTicker], Handles]]

    def __init__(self) -> None:
        super().__init__()
        self.loop = asyncio.new_event_loop()
        self.folder = tempfile.TemporaryDirectory()
        self.clock = FakeTicker()
        self.store: Store = type(self).make(Path(self.folder.name), self.clock)()
        self.model: Store = MemoryStore(clock=self.clock)
        self.together = True
        self.ids: list[str] = []
        self.pairs: list[Pair] = []
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

    def both(self, ask: Callable[[Store], Awaitable[T]]) -> T:
        """The one answer of both."""
        said, expected = self.run(ask(self.store)), self.run(ask(self.model))
        self.compare(said, expected)
        return said

    def compare(self, said: object, expected: object) -> None:
        self.together = said == expected
        assert said == expected

    def each(self, ask: Callable[[Store, list[Claim]], Awaitable[T]], pairs: Sequence[Pair]) -> tuple[T, T]:
        """The two answers to a question about claims, each store asked with its own."""
        said = self.run(ask(self.store, [ours for ours, _ in pairs]))
        return said, self.run(ask(self.model, [theirs for _, theirs in pairs]))

    def agree(self, ask: Callable[[Store, list[Claim]], Awaitable[T]], pairs: Sequence[Pair]) -> None:
        said, expected = self.each(ask, pairs)
        self.compare(said, expected)

    def took_over(self, said: list[Claim], expected: list[Claim]) -> None:
        """New claims must be equal but for the handle that only their store understands."""
        self.compare([replace(claim, ref=None) for claim in said], [replace(claim, ref=None) for claim in expected])
        self.pairs += zip(said, expected, strict=True)

    def turned(self, said: Turn, expected: Turn) -> None:
        self.took_over(said.claims, expected.claims)
        self.compare((said.took, said.again), (expected.took, expected.again))

    def pick(self, picks: list[int]) -> list[Pair]:
        """Claims, counted back from the newest; most of them are stale by now."""
        return [self.pairs[-1 - n % len(self.pairs)] for n in picks] if self.pairs else []

    def named(self, picks: list[int]) -> list[str]:
        return [self.ids[-1 - n % len(self.ids)] for n in picks] if self.ids else ["0" * 32]

    # ------------------------------------------------------------ jobs

    @rule(drafts=st.lists(steps.DRAFTS, min_size=1, max_size=3), again=st.integers(0, 9))
    def enqueue(self, drafts: list[NewJob], again: int) -> None:
        jobs = []
        for draft in drafts:
            self.ids.append(f"{len(self.ids) + 1:032x}")
            jobs.append(replace(draft, id=self.ids[-1], when=self.aimed(draft.when)))
        if again == 0:
            jobs.append(replace(jobs[0], id=self.ids[len(self.ids) // 2], queue="never seen"))
        self.both(lambda store: store.enqueue(jobs))

    def aimed(self, when: When) -> When:
        """Moments are drawn as distances from now."""
        return when if when.at is None else When(at=self.clock.now() + when.at)

    @rule(queues=steps.QUEUES, limit=st.integers(0, 4), lease=steps.LEASES)
    def claim(self, queues: list[str], limit: int, lease: int) -> None:
        said, expected = self.each(lambda store, _: store.claim(queues, limit, lease, "w1"), [])
        self.turned(said, expected)

    @precondition(lambda self: self.pairs)
    @rule(picks=steps.PICKS, verdicts=st.lists(steps.VERDICTS, min_size=3, max_size=3))
    def settle(self, picks: list[int], verdicts: list[Verdict]) -> None:
        self.agree(lambda store, claims: store.settle(self.endings(claims, verdicts)), self.pick(picks))

    @precondition(lambda self: self.pairs)
    @rule(picks=steps.PICKS, verdicts=st.lists(steps.VERDICTS, min_size=3, max_size=3), queues=steps.QUEUES)
    def turn(self, picks: list[int], verdicts: list[Verdict], queues: list[str]) -> None:
        said, expected = self.each(
            lambda store, claims: store.turn(self.endings(claims, verdicts), queues, 2, 40, "w2"), self.pick(picks)
        )
        self.turned(said, expected)

    def endings(self, claims: list[Claim], verdicts: list[Verdict]) -> list[Settlement]:
        return [Settlement(claim, self.fitting(claim, verdict)) for claim, verdict in zip(claims, verdicts, strict=False)]

    def fitting(self, claim: Claim, verdict: Verdict) -> Verdict:
        """Only a job with a key can be blocked."""
        if verdict.state is State.BLOCKED and claim.resource is None:
            return replace(verdict, state=State.QUEUED, hold=None)
        return verdict

    @precondition(lambda self: self.pairs)
    @rule(picks=steps.PICKS, lease=steps.LEASES)
    def extend(self, picks: list[int], lease: int) -> None:
        self.agree(lambda store, claims: store.extend(claims, lease), self.pick(picks))

    @rule(limit=st.integers(1, 3))
    def reap(self, limit: int) -> None:
        said, expected = self.each(lambda store, _: store.reap(limit, 40, "heir"), [])
        self.took_over(said, expected)

    @rule(picks=steps.PICKS, change=steps.CHANGES)
    def amend(self, picks: list[int], change: Change) -> None:
        self.both(lambda store: store.amend(self.named(picks), change))

    @precondition(lambda self: self.pairs)
    @rule(picks=steps.PICKS, name=NAMES, keep=st.sampled_from([None, 30]), text=st.sampled_from([b"1", b"2"]))
    def write_down(self, picks: list[int], name: str, keep: int | None, text: bytes) -> None:
        pairs = self.pick(picks)
        self.agree(lambda store, claims: store.progress([Progress(claim, text) for claim in claims]), pairs)
        self.agree(lambda store, claims: store.remember(Memo(claim=claims[0], name=name, value=text, keep=keep)), pairs)
        self.agree(lambda store, claims: store.recall(claims[-1], name, keep is not None), pairs)

    # ------------------------------------------------------------ time and care

    @rule(ms=st.sampled_from([1, 10, 20, 40, 100]))
    def tick(self, ms: int) -> None:
        self.run(self.clock.tick(ms))

    @rule(queues=steps.QUEUES, key=steps.KEYS, until=steps.WHENS)
    def hold(self, queues: list[str], key: str, until: When) -> None:
        self.both(lambda store: store.hold(queues, key, self.aimed(until)))

    @rule(queues=steps.QUEUES, pause=st.booleans())
    def pause_or_resume(self, queues: list[str], pause: bool) -> None:
        self.both(lambda store: store.pause(queues[:1]) if pause else store.resume(queues))

    @rule(limit=st.integers(1, 3), most=st.integers(0, 3))
    def prune(self, limit: int, most: int) -> None:
        self.both(lambda store: store.prune(limit, most))

    @rule(id=st.sampled_from(["w1", "w2"]), keep=st.sampled_from([10, 100]), leaves=st.booleans())
    def come_and_go(self, id: str, keep: int, leaves: bool) -> None:
        worker = WorkerView(id=id, name="n", host="h", pid=1, queues=("a",), tasks=("t",), slots=keep)
        if leaves:
            self.both(lambda store: store.leave(id))
        else:
            self.both(lambda store: store.beat(worker, keep))

    # ------------------------------------------------------------ repeats

    @rule(key=REPEATS, spec=st.sampled_from([b"1", b"2"]), ahead=st.sampled_from([-20, 0, 20]), state=steps.REPEAT_STATES)
    def put_repeat(self, key: str, spec: bytes, ahead: int, state: RepeatState) -> None:
        cursor = self.clock.now() + ahead if state is RepeatState.ACTIVE else None
        self.both(lambda store: store.put_repeat(Repeat(key=key, spec=spec, cursor=cursor, state=state, reason=str(spec))))

    @rule(key=REPEATS, act=st.sampled_from(["remove_repeats", "pause_repeats", "resume_repeats", "resume_repeats"]))
    def switch_repeat(self, key: str, act: str) -> None:
        self.both(methodcaller(act, [key]))

    @rule(limit=st.integers(1, 2), draft=steps.DRAFTS, last=st.booleans(), ends=st.integers(0, 4))
    def plan(self, limit: int, draft: NewJob, last: bool, ends: int) -> None:
        """What is due becomes firings, which may be fired now, later or twice."""
        for repeat in self.both(lambda store: store.due_repeats(limit)).repeats:
            assert repeat.cursor is not None
            self.ids.append(f"{len(self.ids) + 1:032x}")
            made = replace(draft, id=self.ids[-1], repeat=repeat.key, fire_time=repeat.cursor)
            firing = Firing(
                key=repeat.key,
                cursor=repeat.cursor,
                revision=repeat.revision,
                next=None if ends == 0 else repeat.cursor + 15 * ends,
                fired=1,
                last=repeat.cursor if last else None,
                jobs=(made,),
                state=RepeatState.FINISHED if ends == 0 else RepeatState.ACTIVE,
                reason="over" if ends == 0 else "",
            )
            self.firings.append(firing)

    @precondition(lambda self: self.firings)
    @rule(picks=st.lists(st.integers(0, 3), min_size=1, max_size=2))
    def fire(self, picks: list[int]) -> None:
        chosen = [self.firings[-1 - n % len(self.firings)] for n in picks]
        self.both(lambda store: store.fire(chosen))

    # ------------------------------------------------------------ looking

    @invariant()
    def all_jobs_are_alike(self) -> None:
        self.both(lambda store: store.find(self.ids))

    @rule(want=steps.FILTERS, limit=st.integers(1, 3), pick=st.integers(0, 9))
    def turn_pages(self, want: JobFilter, limit: int, pick: int) -> None:
        after = self.named([pick])[0] if pick else None
        self.both(lambda store: store.page(want, after, limit))

    @rule()
    def look_around(self) -> None:
        self.both(lambda store: store.queues())
        self.both(lambda store: store.queue_names())
        self.both(lambda store: store.resources())
        self.both(lambda store: store.list_repeats())
        self.both(lambda store: store.workers())

    def look_closely(self) -> None:
        self.look_around()
        for id in self.ids:
            self.both(methodcaller("timeline", id))
            self.both(methodcaller("ahead", id))
