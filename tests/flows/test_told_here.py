"""What a worker has told itself it does not read again, and everything ends as if it did."""

import asyncio
from collections import Counter
from typing import Any

import pytest

from mita import FlowRecord, FlowRun, Job, Mita, Retry
from mita.engine.flow_runs import FlowRuns
from mita.flows import told_here
from mita.flows.told_here import ToldHere
from mita.model.flow import Arrival
from mita.model.job import Claim
from mita.model.outcome import Settlement
from mita.ports.store import Can
from mita.rules.flow import FLOW_TASK, ONE_SUCCESS
from mita.rules.flow_plan import FlowSpec, pack_spec
from mita.rules.judge import success
from mita.stores.memory import MemoryStore

# how a store tells: with the settlement, the counter early, or everything in calls of its own
WAYS = {
    "with settle": Can(0),
    "at once": Can.TELL_WITH_SETTLE,
    "apart": Can.TELL_WITH_SETTLE | Can.TELL_AT_ONCE,
}


@pytest.fixture(params=WAYS)
def reads(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Counter[str]:
    """How often the values of each job are read from the store, which tells in this way."""
    found: Counter[str] = Counter()
    read = MemoryStore.once_values

    async def counted(store: MemoryStore, id: str) -> dict[str, bytes]:
        found[id] += 1
        return await read(store, id)

    monkeypatch.setattr(MemoryStore, "once_values", counted)
    monkeypatch.setattr(MemoryStore, "can", MemoryStore.can & ~WAYS[request.param])
    return found


def forget_everything(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ToldHere, "remember", lambda *_: None)


class Bench:
    """An app with tasks for flows of several kinds."""

    def __init__(self) -> None:
        self.app = app = Mita("memory://", retry=Retry(max_retries=1, base=0.0, cap=0.0))

        @app.task
        async def one(number: int) -> int:
            return number + 1

        @app.task
        def on_thread(number: int) -> int:
            return number * 2

        @app.task
        async def total(numbers: list[int]) -> int:
            return sum(numbers)

        @app.task
        async def second_try(job: Job, number: int) -> int:
            if job.attempt == 1:
                raise OSError("not yet")
            return number

        @app.task(retry=Retry(max_retries=0))
        async def broken(number: int) -> int:
            raise ValueError(f"{number} is broken")

        @app.task
        async def long(number: int) -> list[int]:
            return [number] * told_here.LONGEST_REMEMBERED_BYTES

        self.flows: dict[str, Any] = {
            "chain": app.chain(one.call(0), one.call, on_thread.call, one.call),
            "retried": app.chain(one.call(0), second_try.call, one.call),
            "single": app.chain(one.call(7)),
            "group": app.group([one.call(n) for n in range(5)]).then(total.call),
            "large": app.group([one.call(n) for n in range(150)]).then(total.call),
            "broken": app.chain(one.call(0), broken.call, one.call),
            "long": app.chain(long.call(3), total.call, one.call),
        }

    async def run(self, *kinds: str) -> list[tuple[str, list[Any]]]:
        """Run flows of these kinds at once. Returns their states, and the states and results of
        their steps."""
        async with self.app as app:
            runs = [await self.flows[kind].enqueue() for kind in kinds]
            async with asyncio.timeout(60):
                await app.worker(until_empty=True, concurrency=3).run()
            records = [await run.get() for run in runs]
            return [await self.shown(record) for record in records if record is not None]

    async def shown(self, record: FlowRecord) -> tuple[str, list[Any]]:
        jobs = [await self.app.get(step.id) for step in record.steps]
        return record.state, [None if job is None else (job.state, job.result) for job in jobs]


KINDS = ["chain", "single", "group", "retried", "large", "broken", "long"]


async def test_flows_end_in_the_same_way_if_nothing_is_remembered(
    reads: Counter[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    remembered = await Bench().run(*KINDS)
    read_less = reads.total()
    reads.clear()
    forget_everything(monkeypatch)
    assert await Bench().run(*KINDS) == remembered
    assert [state for state, _ in remembered] == [
        "failed" if kind == "broken" else "succeeded" for kind in KINDS
    ]
    assert read_less < reads.total()


async def test_a_chain_reads_nothing(reads: Counter[str], monkeypatch: pytest.MonkeyPatch) -> None:
    run = FlowRun.get
    before: list[int] = []

    async def noted(flow: FlowRun) -> FlowRecord | None:
        before.append(reads.total())
        return await run(flow)

    monkeypatch.setattr(FlowRun, "get", noted)
    await Bench().run("chain", "single")
    assert before[0] == 0


async def test_a_chain_needs_no_tasks_but_those_of_its_handlers(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    begun: list[Any] = []
    begin = FlowRuns._begin

    def noted(runs: FlowRuns, work: Any) -> None:
        begun.append(work)
        begin(runs, work)

    monkeypatch.setattr(FlowRuns, "_begin", noted)
    [(state, _)] = await Bench().run("chain")
    assert state == "succeeded"
    assert not begun


# ---------------------------------------------------------------- what is remembered


def told(receiver: str, sender: str, value: bytes = b"x", needs: int = 1) -> Arrival:
    return Arrival("default", receiver, sender, value, needs)


def claim(id: str, task: str = "t", payload: bytes = b"") -> Claim:
    return Claim(id, 1, 0, task, "default", payload, b"", b"", 5, 0, 0)


def flow(needs: int) -> Claim:
    return claim("F", FLOW_TASK, pack_spec(FlowSpec("f", needs, 1, needs)))


def test_a_value_is_taken_once() -> None:
    here = ToldHere()
    here.remember(told("F.000002", "F.000001"))
    here.remember(told("F.000003", "F.000001", needs=2))
    assert here.take("F.000002") == b"x"
    assert here.take("F.000002") is None
    assert here.take("F.000003") is None


@pytest.mark.parametrize("limit", ["REMEMBERED_JOBS", "MOST_REMEMBERED_BYTES"])
def test_the_oldest_are_forgotten(limit: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(told_here, limit, 3)
    here = ToldHere()
    for number in range(5):
        here.remember(told(f"j{number}", "s"))
    assert [here.take(f"j{number}") for number in range(5)] == [None, None, b"x", b"x", b"x"]


def test_a_value_that_is_too_long_is_not_kept() -> None:
    here = ToldHere()
    here.remember(told("j", "s", b"x" * (told_here.LONGEST_REMEMBERED_BYTES + 1)))
    assert here.take("j") is None


def test_a_flow_has_ended_when_all_of_its_steps_have_told_it_here() -> None:
    here = ToldHere()
    here.remember(told("F", "F.000001", ONE_SUCCESS, 2))
    assert not here.all_succeeded(flow(2))
    for number in (1, 2):
        here.remember(told("F", f"F.00000{number}", ONE_SUCCESS, 2))
    assert here.all_succeeded(flow(2))
    assert not here.all_succeeded(flow(2))


def test_nobody_has_told_a_flow_that_needs_nothing() -> None:
    assert not ToldHere().all_succeeded(flow(0))


def test_a_flow_that_cannot_be_read_has_not_ended() -> None:
    here = ToldHere()
    here.remember(told("F", "F.000001", ONE_SUCCESS, 1))
    assert not here.all_succeeded(claim("F", FLOW_TASK, b"\xc1"))


def test_the_count_of_the_oldest_flow_is_forgotten(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(told_here, "REMEMBERED_JOBS", 1)
    here = ToldHere()
    here.remember(told("F", "F.000001", ONE_SUCCESS, 2))
    here.remember(told("G", "G.000001", ONE_SUCCESS, 2))
    here.remember(told("F", "F.000002", ONE_SUCCESS, 2))
    assert not here.all_succeeded(flow(2))


def test_what_was_told_before_is_not_remembered_again() -> None:
    here, verdict = ToldHere(), success(b"", 0)
    arrivals = (told("F.000002", "F.000001"), told("F", "F.000001", ONE_SUCCESS, 1))
    settlement = Settlement(claim("F.000001"), verdict, arrivals=arrivals)
    here.settled([settlement], arrivals)
    assert here.take("F.000002") is None
    assert not here.all_succeeded(flow(1))
    assert not here.has_ended(settlement)
    here.settled([settlement], ())
    assert here.take("F.000002") == b"x"
    assert here.all_succeeded(flow(1))
    assert here.has_ended(settlement)
