"""Workers, as they describe themselves by their heartbeats."""

from typing import Any

from mita.model.view import WorkerView
from mita.ports.store import Store

from .clocks import Ticker
from .given import (
    LONG,
    PAST,
    QUEUE,
    SHORT,
)


def worker(id: str, **more: Any) -> WorkerView:
    """A worker as it describes itself, with these fields."""
    fields: dict[str, Any] = {
        "name": "shop",
        "host": "box",
        "pid": 4711,
        "queues": (QUEUE, "billing"),
        "tasks": ("charge", "send"),
        "slots": 100,
        "running": 3,
        "rate": 12.5,
        "started": 1_699_999_000_000,
        "offset": -7,
    }
    return WorkerView(id=id, **{**fields, **more})


async def test_a_worker_is_shown_as_it_described_itself(store: Store, twin: Store) -> None:
    """`workers` returns what the last heartbeat of each worker said."""
    before = await store.now()
    seen = await store.beat(worker("b", name="one"), LONG)
    await store.beat(worker("a", name="two", running=9), LONG)
    assert before <= seen <= await store.now()
    first, second = await twin.workers()
    assert second == worker("b", name="one", seen=seen)
    assert (first.id, first.running) == ("a", 9)


async def test_the_newest_heartbeat_counts(store: Store) -> None:
    """A heartbeat replaces the one before."""
    await store.beat(worker("a", running=1), LONG)
    await store.beat(worker("a", running=2), LONG)
    assert [view.running for view in await store.workers()] == [2]


async def test_a_worker_without_heartbeats_disappears(store: Store, clock: Ticker) -> None:
    """I12 self-heal: a heartbeat belongs to one start of a worker, not to its name."""
    await store.beat(worker("first life"), SHORT)
    await store.beat(worker("second life"), LONG)
    await clock.tick(PAST)
    assert [view.id for view in await store.workers()] == ["second life"]


async def test_a_worker_that_leaves_is_gone_at_once(store: Store, twin: Store) -> None:
    """`leave` removes the worker from `workers`."""
    await store.beat(worker("a"), LONG)
    await twin.leave("a")
    await twin.leave("nobody")
    assert await store.workers() == []
