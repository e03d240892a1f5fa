"""Many jobs in one call: the next slice is built while the previous one is being stored, and
sent only after that."""

import asyncio
from collections.abc import Iterator

import pytest

from mita import Mita
from mita.errors import StoreError
from mita.model.job import NewJob, Receipt
from mita.ports.ahead import one_ahead
from mita.ports.ids import new_ids
from mita.stores.memory.store import MemoryStore

from .conftest import total


class Post:
    """Sends numbers and records the order of events; a send waits until the test releases it."""

    def __init__(self, broken: int | None = None) -> None:
        self.log: list[str] = []
        self.broken = broken
        self.through = asyncio.Event()
        self.ahead = asyncio.Event()

    def make(self, n: int) -> Iterator[int]:
        for number in range(n):
            self.log.append(f"made {number}")
            if number:
                self.ahead.set()
            yield number

    async def send(self, number: int) -> list[int]:
        self.log.append(f"sent {number}")
        await self.through.wait()
        self.log.append(f"done {number}")
        if number == self.broken:
            raise StoreError("away", transient=True)
        return [number, number]


async def test_the_next_slice_is_built_during_the_send_before_it() -> None:
    post = Post()
    asyncio.get_running_loop().call_later(0.01, post.through.set)
    assert await one_ahead(post.make(3), post.send) == [0, 0, 1, 1, 2, 2]
    assert post.log == [
        "made 0",
        "sent 0",
        "made 1",
        "done 0",
        "sent 1",
        "done 1",
        "made 2",
        "sent 2",
        "done 2",
    ]
    assert await one_ahead(post.make(0), post.send) == []


async def test_nothing_is_sent_after_a_slice_that_failed() -> None:
    post = Post(broken=1)
    post.through.set()
    with pytest.raises(StoreError):
        await one_ahead(post.make(4), post.send)
    assert not any(line in post.log for line in ("sent 2", "sent 3"))


async def test_a_cancelled_call_cancels_its_send() -> None:
    post = Post()
    waiting = asyncio.create_task(one_ahead(post.make(3), post.send))
    await post.ahead.wait()
    waiting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await waiting
    post.through.set()
    await asyncio.sleep(0)
    assert "done 0" not in post.log
    assert "sent 1" not in post.log


async def test_no_slice_is_sent_after_a_failed_one_on_a_store(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    takes_in, sizes = MemoryStore.enqueue, []

    async def enqueue(store: MemoryStore, jobs: list[NewJob]) -> list[Receipt]:
        sizes.append(len(jobs))
        if len(sizes) == 3:
            raise StoreError("away", transient=True)
        return await takes_in(store, jobs)

    monkeypatch.setattr(MemoryStore, "enqueue", enqueue)
    async with Mita("memory://") as app:

        @app.task
        async def number(n: int) -> None: ...

        with pytest.raises(StoreError, match="away"):
            await app.enqueue_many(number.call(n) for n in range(4500))
        assert sizes == [1000, 1000, 1000]
        assert await total(app) == 2000


@pytest.mark.parametrize("n", [0, 1, 4096, 5000])
def test_ids_are_in_order_and_of_one_length(n: int) -> None:
    ids = new_ids(n)
    assert ids == sorted(set(ids))
    assert len(ids) == n
    assert {len(id) for id in ids} <= {32}
