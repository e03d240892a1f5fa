"""What a handler sees of its job, with a fake worker."""

from collections.abc import Coroutine
from contextlib import AbstractContextManager, nullcontext
from datetime import UTC, datetime
from typing import Any

import msgspec
import pytest

from mita import Job, LeaseLost, UsageError
from mita.model.job import Claim, NewJob
from mita.model.time import DAY
from mita.tasks import Suspend
from mita.tasks.added import AddedDraft
from mita.tasks.task import Task


class Acted:
    """A fake `Run` that keeps everything in memory."""

    def __init__(self) -> None:
        self.cancelled = False
        self.lost = False
        self.reports: list[Any] = []
        self.memos: dict[tuple[str, bool], bytes] = {}
        self.keeps: list[int | None] = []
        self.released: list[str] = []
        self.completed: list[tuple[Any, Any]] = []
        self.now = 0
        self.suspended: Suspend | None = None
        self.added: AddedDraft | None = None
        self.tasks: dict[str, Task[Any, Any]] = {}

    async def report(self, packed: bytes) -> None:
        if self.lost:
            raise LeaseLost("gone")
        self.reports.append(msgspec.msgpack.decode(packed))

    async def recall(self, name: str, shared: bool) -> bytes | None:
        return self.memos.get((name, shared))

    async def recall_all(self) -> dict[str, bytes]:
        return {name: value for (name, shared), value in self.memos.items() if not shared}

    def doing_step(self, name: str) -> AbstractContextManager[None]:
        return nullcontext()

    async def start_child(self, job: NewJob) -> None:
        raise AssertionError("no test here starts a child")

    async def child_outcome(self, id: str) -> bytes | None:
        raise AssertionError("no test here has a child")

    def unpack_result(self, task: str, packed: bytes) -> Any:
        raise AssertionError("no test here has a child")

    async def take_once(self, name: str) -> bytes | None:
        return self.memos.get((name, True))

    async def release_once(self, name: str) -> None:
        self.released.append(name)

    async def remember(self, name: str, value: bytes, keep: int | None) -> bytes | None:
        self.keeps.append(keep)
        return None if self.lost else self.memos.setdefault((name, keep is not None), value)

    async def complete(self, connection: Any, result: bytes) -> None:
        self.complete_sync(connection, result)

    def complete_sync(self, connection: Any, result: bytes) -> None:
        self.completed.append((connection, msgspec.msgpack.decode(result)))

    def call(self, coro: Coroutine[Any, Any, Any]) -> Any:
        try:
            coro.send(None)
        except StopIteration as end:
            return end.value
        raise AssertionError("it waited for something")


CLAIM = Claim(
    id="j1",
    token=3,
    at=0,
    task="send",
    queue="mail",
    payload=b"",
    options=b"",
    headers=b"",
    priority=7,
    due=0,
    created=0,
    attempts=2,
    reschedules=1,
    fire_time=1_000,
)


@pytest.fixture
def run() -> Acted:
    return Acted()


@pytest.fixture
def job(run: Acted) -> Job:
    return Job(CLAIM, run)


def test_a_job_has_the_fields_of_its_claim(job: Job, run: Acted) -> None:
    assert (job.id, job.task, job.queue, job.priority, job.token) == ("j1", "send", "mail", 7, 3)
    assert (job.attempt, job.reschedules) == (3, 1)
    assert job.fire_time == datetime(1970, 1, 1, 0, 0, 1, tzinfo=UTC)
    assert job.checkpoint is None
    before, run.cancelled = job.cancelled, True
    assert (before, job.cancelled) == (False, True)
    assert not hasattr(job, "__dict__")


async def test_progress_is_reported_and_kept(job: Job, run: Acted) -> None:
    await job.progress(3, 10, "page 3")
    assert run.reports == [[3, 10, "page 3"]]
    assert job.checkpoint == (3, 10, "page 3")


@pytest.mark.parametrize("wrong", [("3",), (float("nan"),), (float("inf"), 10), (1, "10"), (True,)])
async def test_progress_that_is_not_a_number_is_refused(job: Job, run: Acted, wrong: Any) -> None:
    with pytest.raises(UsageError, match=r"progress\((done|total)="):
        await job.progress(*wrong)
    assert not run.reports


def test_progress_can_be_reported_from_a_thread(job: Job, run: Acted) -> None:
    job.progress_sync(4)
    assert job.checkpoint == (4, None, "")
    assert run.reports == [[4, None, ""]]


def test_the_progress_of_an_earlier_run_is_a_checkpoint(run: Acted) -> None:
    later = Job(msgspec.structs.replace(CLAIM, progress=msgspec.msgpack.encode((7, 9, "x"))), run)
    assert later.checkpoint == (7, 9, "x")


async def test_progress_of_a_lost_run_is_refused(job: Job, run: Acted) -> None:
    run.lost = True
    with pytest.raises(LeaseLost):
        await job.progress(1)
    assert job.checkpoint is None
    with pytest.raises(LeaseLost):
        await job.once("x", lambda: 1)


async def test_once_runs_async_and_sync_functions_once(job: Job) -> None:
    calls: list[str] = []

    async def slow() -> str:
        calls.append("slow")
        return "a"

    def quick() -> None:
        calls.append("quick")

    for _ in range(2):
        assert await job.once("slow", slow) == "a"
        assert await job.once("quick", quick) is None  # type: ignore[func-returns-value]
        job.once_sync("sync", quick)
    assert calls == ["slow", "quick", "quick"]


class Receipt(msgspec.Struct):
    number: int


async def test_once_returns_the_annotated_type_every_time(job: Job) -> None:
    def charge() -> Receipt:
        return Receipt(7)

    for _ in range(2):
        assert await job.once("charged", charge) == Receipt(7)


async def test_once_for_all_jobs_has_a_time_to_live(job: Job, run: Acted) -> None:
    await job.once("a", lambda: 1, scope="global")
    await job.once("b", lambda: 1, scope="global", ttl=5)
    await job.once("a", lambda: 2)
    assert run.keeps == [DAY, 5000, None]
    assert run.released == ["a", "b"], "also when the function returned"


async def test_wrong_uses_of_once_are_refused(job: Job) -> None:
    with pytest.raises(UsageError, match="scope='global'"):
        await job.once("a", lambda: 1, ttl=5)
    with pytest.raises(UsageError, match="scope='world'"):
        await job.once("a", lambda: 1, scope="world")  # type: ignore[call-overload]
    with pytest.raises(UsageError, match="once key ''"):
        await job.once("", lambda: 1)
    with pytest.raises(UsageError, match="cannot be stored"):
        await job.once("a", object)


async def test_a_job_can_be_completed_in_the_handlers_own_transaction() -> None:
    run = Acted()
    job = Job(CLAIM, run)
    await job.complete_in("your connection", {"paid": True})
    job.complete_in_sync("another", None)
    assert run.completed == [("your connection", {"paid": True}), ("another", None)]
