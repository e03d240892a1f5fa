"""Which store takes a wake ticket, and which lane of a queue has its turn."""

import time
from collections.abc import Collection

import pytest

from mita.stores.nats.stream.subjects import Subjects
from mita.stores.nats.tickets import planned_wakes, turns
from mita.stores.nats.tickets.planned_wakes import LATE_MS, SPREAD_MS, PlannedWakes
from mita.stores.nats.tickets.turns import LaneTurns
from tests.waiting import until

A, B, C = ("q", 5), ("q", 15), ("q", 25)


class FakeServer:
    """Passes each message to all stores, and has the time."""

    def __init__(self) -> None:
        self.time = 1000
        self.stores: list[PlannedWakes] = []
        self.woken: list[str] = []

    def now(self) -> int:
        return self.time

    def send_message(self, _: str, body: bytes) -> None:
        for store in self.stores:
            store._take(b"", b"", body, None)

    def flush_soon(self) -> None:
        pass

    def store(self) -> PlannedWakes:
        def wake(queues: Collection[str]) -> None:
            self.woken += queues

        store = PlannedWakes(self, Subjects("n"), self, wake)  # type: ignore[arg-type]
        self.stores.append(store)
        return store


@pytest.fixture
def server() -> FakeServer:
    return FakeServer()


async def test_the_store_that_planned_a_wake_ticket_takes_it(server: FakeServer) -> None:
    own, other = server.store(), server.store()
    await own.announce("q", "k", 1020)
    assert (own.late(["q"]), other.late(["q"])) == ([], [])
    server.time = 1020
    assert own.has_late(["q"])
    assert not other.has_late(["q"])
    assert own.late(["other"]) == []
    assert [plan.key for plan in own.late(["q"])] == ["k"]
    assert own.late(["q"]) == [], "once"
    server.time = 1020 + LATE_MS + SPREAD_MS
    assert [plan.key for plan in other.late(["q"])] == ["k"], "the first may have died"


async def test_a_wake_ticket_that_is_handed_on_is_for_every_store(server: FakeServer) -> None:
    own, other = server.store(), server.store()
    await own.announce("q", "k", 1000, hand_on=True)
    server.time = 1000 + SPREAD_MS
    assert own.has_late(["q"])
    assert [plan.key for plan in other.late(["q"])] == ["k"]


async def test_a_store_that_takes_a_late_wake_ticket_tells_the_others(server: FakeServer) -> None:
    """Otherwise all of them would take it, when the machine is busy."""
    first, *others = [server.store() for _ in range(4)]
    await first.announce("q", "k", 1000)
    server.time = 1000 + LATE_MS + SPREAD_MS
    assert all(other.has_late(["q"]) for other in others)
    assert len(others[0].late(["q"])) == 1
    assert not any(other.has_late(["q"]) for other in (first, *others))
    server.time += LATE_MS + SPREAD_MS
    assert all(other.has_late(["q"]) for other in (first, *others[1:])), "it may have died"


async def test_a_plan_for_an_earlier_time_moves_the_timer(
    server: FakeServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(planned_wakes, "FORGOTTEN_MS", 100_000)
    store, other = server.store(), server.store()
    await other.announce("q", "later", 1900)
    await other.announce("q", "now", 1000, hand_on=True)
    assert store._timer_at <= 1000 + SPREAD_MS
    server.time = 1000 + SPREAD_MS
    await until(lambda: server.woken, "the store is woken")
    store.close()
    other.close()


# ---------------------------------------------------------------- lanes


def test_lanes_share_what_is_wanted() -> None:
    assert LaneTurns().wanted([A, B, C], 9) == {A: 3, B: 3, C: 3}
    assert LaneTurns().wanted([A], 9) == {A: 9}


def test_a_lane_that_was_empty_is_asked_beside_the_others(monkeypatch: pytest.MonkeyPatch) -> None:
    """It does not cost a second request that it is still empty."""
    clock = [100.0]
    monkeypatch.setattr(time, "monotonic", lambda: clock[0])
    lanes = LaneTurns()
    assert lanes.without_empty([A, B, C], {A: 3, B: 3, C: 3}, {A: 3, B: 1}) == [A]
    assert lanes.wanted([A, B, C], 9) == {A: 9}
    assert lanes.wanted([B, C], 2) == {B: 1, C: 1}, "the others have too few"
    clock[0] += turns.EMPTY_BELIEVED_S
    assert lanes.wanted([A, B, C], 9) == {A: 9, B: 3, C: 3}
    for _ in range(5):
        lanes.without_empty([A, B, C], {B: 3, C: 3}, {})
    clock[0] += turns.LONGEST_EMPTY_S - 0.01
    assert lanes.wanted([A, B, C], 9) == {A: 9}
    lanes.has_ticket(C)
    assert lanes.wanted([A, B, C], 9) == {A: 5, C: 4}


def test_of_more_tickets_than_starts_each_lane_has_its_share() -> None:
    assert LaneTurns().chosen({A: 9, B: 2, C: 3}, 9) == {A: 4, B: 2, C: 3}
    assert LaneTurns().chosen({A: 1, B: 1}, 5) == {A: 1, B: 1}
