"""The stores that the contract, the walk and the faults are run over. A new store is one more
entry."""

import sqlite3
from collections.abc import Callable
from functools import cache
from pathlib import Path

import pytest

from mita.ports.clock import Clock
from mita.ports.store import Store
from mita.stores.memory import MemoryState, MemoryStore
from mita.stores.postgres.server import arrays
from mita.stores.redis import RedisStore
from mita.stores.sqlite import SqliteStore, connection
from tests.stores.postgres import shared as postgres_servers
from tests.stores.redis import servers as redis_servers

Handles = Callable[[], Store]  # each call makes another handle on the same data


def memory(folder: Path, clock: Clock) -> Handles:
    state = MemoryState()
    return lambda: MemoryStore(state, clock)


def sqlite(folder: Path, clock: Clock) -> Handles:
    return lambda: SqliteStore(folder / "jobs.db", clock=clock)


def redis(folder: Path, clock: Clock) -> Handles:
    url, namespace = (
        redis_servers.shared(redis_servers.bundled()).url,
        redis_servers.fresh_namespace(),
    )
    return lambda: RedisStore(url, namespace=namespace, clock=clock)


# ---------------------------------------------------- with a limit as low as the engine can have it


@cache
def tight_redis() -> redis_servers.Server:
    return redis_servers.Server(redis_servers.bundled(), "--proto-max-bulk-len", "1mb").start()


def tighten_sqlite(patch: pytest.MonkeyPatch) -> None:
    connect = connection.connect

    def tight(path: Path) -> sqlite3.Connection:
        opened = connect(path)
        opened.setlimit(sqlite3.SQLITE_LIMIT_LENGTH, 200_000)
        return opened

    patch.setattr(connection, "connect", tight)


def tight(name: str, folder: Path, clock: Clock, patch: pytest.MonkeyPatch) -> Store:
    """A store of this kind with little room for a job."""
    if name == "memory":
        return MemoryStore(MemoryState(), clock, room=50_000)
    if name == "redis":
        return RedisStore(tight_redis().url, namespace=redis_servers.fresh_namespace(), clock=clock)
    if name == "sqlite":
        tighten_sqlite(patch)
    else:
        patch.setattr(arrays, "LARGEST_ARRAY_CHARS", 200_000)
    return STORES[name](folder, clock)()


STORES: dict[str, Callable[[Path, Clock], Handles]] = {
    "memory": memory,
    "sqlite": sqlite,
    "redis": redis,
    **postgres_servers.FACTORIES,  # one entry for each PostgreSQL there is
}
