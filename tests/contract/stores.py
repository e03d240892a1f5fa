"""The stores that the contract, the walk, the orphans and the faults are run over. A new store is
one more entry; its server starts when the first test asks for it."""

import sqlite3
from collections.abc import Callable, Sequence
from functools import cache
from pathlib import Path
from typing import cast

import pytest
from msgspec import Struct

from mita.ports.clock import Clock
from mita.ports.store import Store
from mita.sealing import Keyring, SealedStore
from mita.stores.memory import MemoryState, MemoryStore
from mita.stores.nats import NatsStore
from mita.stores.postgres.server import arrays
from mita.stores.redis import RedisStore
from mita.stores.sqlite import SqliteStore, connection
from mita.testing.contract.clocks import FakeTicker, RealTicker
from tests.stores.nats import servers as nats_servers
from tests.stores.postgres import shared as postgres_servers
from tests.stores.redis import servers as redis_servers

from .arrival_faults import IN_SQL, OF_ARRIVALS
from .audit_faults import OF_AUDIT, OF_AUDIT_IN_SQL
from .faults import IN_MEMORY, IN_SQLITE, Fault
from .group_faults import OF_GROUPS
from .history_faults import HISTORY_IN_SQL, OF_HISTORY
from .limit_faults import OF_LIMITS
from .rewrite_faults import OF_REWRITES
from .signal_faults import OF_SIGNALS

Handles = Callable[[], Store]  # each call makes another handle on the same data


class StoreEntry(Struct, frozen=True):
    """A store under test.

    `handles` makes handles on new data, `tight` a store with little room for a job; both get a
    folder and a clock. A store without a `fake_clock` is tested in real time. The walk, which
    compares answers to the millisecond, leaves it out: such a store has a walk of its own.
    `walks` is how many walks the daily run takes. Each of its planted `faults` must be noticed."""

    handles: Callable[[Path, Clock], Handles]
    tight: Callable[[Path, Clock, pytest.MonkeyPatch], Store]
    fake_clock: bool = True
    walks: int = 200
    faults: Sequence[Fault] = ()

    def new_clock(self) -> FakeTicker | RealTicker:
        """Returns the clock that a test lets run."""
        return FakeTicker() if self.fake_clock else RealTicker()


def memory(folder: Path, clock: Clock) -> Handles:
    state = MemoryState()
    return lambda: MemoryStore(state, clock)


def sqlite(folder: Path, clock: Clock) -> Handles:
    return lambda: SqliteStore(folder / "jobs.db", clock=clock)


SEALING_KEYS = Keyring("new", {"new": bytes(32), "old": bytes([7]) * 32})


def sealed(folder: Path, clock: Clock) -> Handles:
    """Encrypted values, in memory."""
    behind = memory(folder, clock)
    return lambda: cast(Store, SealedStore(behind(), SEALING_KEYS))


def redis(folder: Path, clock: Clock) -> Handles:
    url = redis_servers.shared(redis_servers.bundled()).url
    namespace = redis_servers.fresh_namespace()
    return lambda: RedisStore(url, namespace=namespace, clock=clock)


def nats(folder: Path, clock: Clock) -> Handles:
    url, namespace = nats_servers.shared().url, nats_servers.fresh_namespace()
    return lambda: NatsStore(url, namespace=namespace)


# ---------------------------------------------------- with a limit as low as the engine can have it


def tight_memory(folder: Path, clock: Clock, patch: pytest.MonkeyPatch) -> Store:
    return MemoryStore(MemoryState(), clock, room=50_000)


def tight_sealed(folder: Path, clock: Clock, patch: pytest.MonkeyPatch) -> Store:
    return cast(Store, SealedStore(tight_memory(folder, clock, patch), SEALING_KEYS))


def tight_sqlite(folder: Path, clock: Clock, patch: pytest.MonkeyPatch) -> Store:
    tighten_sqlite(patch)
    return sqlite(folder, clock)()


def tighten_sqlite(patch: pytest.MonkeyPatch) -> None:
    connect = connection.connect

    def tight(path: Path) -> sqlite3.Connection:
        opened = connect(path)
        opened.setlimit(sqlite3.SQLITE_LIMIT_LENGTH, 200_000)
        return opened

    patch.setattr(connection, "connect", tight)


def tight_redis(folder: Path, clock: Clock, patch: pytest.MonkeyPatch) -> Store:
    namespace = redis_servers.fresh_namespace()
    return RedisStore(tight_redis_server().url, namespace=namespace, clock=clock)


@cache
def tight_redis_server() -> redis_servers.Server:
    return redis_servers.Server(redis_servers.bundled(), "--proto-max-bulk-len", "1mb").start()


def tight_nats(folder: Path, clock: Clock, patch: pytest.MonkeyPatch) -> Store:
    return NatsStore(nats_servers.tight().url, namespace=nats_servers.fresh_namespace())


def postgres(name: str) -> StoreEntry:
    """One of the PostgreSQL servers there are."""
    handles = postgres_servers.FACTORIES[name]

    def tight(folder: Path, clock: Clock, patch: pytest.MonkeyPatch) -> Store:
        patch.setattr(arrays, "LARGEST_ARRAY_CHARS", 200_000)
        return handles(folder, clock)()

    return StoreEntry(handles, tight, walks=15 if name == "pg18" else 10)


STORES: dict[str, StoreEntry] = {
    "sealed": StoreEntry(sealed, tight_sealed, walks=10),
    "memory": StoreEntry(
        memory,
        tight_memory,
        faults=[
            *IN_MEMORY,
            *OF_LIMITS,
            *OF_SIGNALS,
            *OF_ARRIVALS,
            *OF_REWRITES,
            *OF_AUDIT,
            *OF_HISTORY,
            *OF_GROUPS,
        ],
    ),
    "sqlite": StoreEntry(
        sqlite,
        tight_sqlite,
        walks=120,
        faults=[*IN_SQLITE, *IN_SQL, *OF_AUDIT_IN_SQL, *HISTORY_IN_SQL],
    ),
    "redis": StoreEntry(redis, tight_redis, walks=50),
    "nats": StoreEntry(nats, tight_nats, fake_clock=False),
    **{name: postgres(name) for name in postgres_servers.FACTORIES},
}
