"""The stores that the contract, the walk and the faults are run over. A new store is one more entry."""

from collections.abc import Callable
from pathlib import Path

from mita.ports.clock import Clock
from mita.ports.store import Store
from mita.stores.memory import MemoryState, MemoryStore
from mita.stores.redis import RedisStore
from mita.stores.sqlite import SqliteStore
from tests.stores.postgres import shared as postgres_servers
from tests.stores.redis import servers as redis_servers

Handles = Callable[[], Store]  # each call makes another handle on the same data


def memory(folder: Path, clock: Clock) -> Handles:
    state = MemoryState()
    return lambda: MemoryStore(state, clock)


def sqlite(folder: Path, clock: Clock) -> Handles:
    return lambda: SqliteStore(folder / "jobs.db", clock=clock)


def redis(folder: Path, clock: Clock) -> Handles:
    url, namespace = redis_servers.shared(redis_servers.bundled()).url, redis_servers.fresh_namespace()
    return lambda: RedisStore(url, namespace=namespace, clock=clock)


STORES: dict[str, Callable[[Path, Clock], Handles]] = {
    "memory": memory,
    "sqlite": sqlite,
    "redis": redis,
    **postgres_servers.FACTORIES,  # one entry for each PostgreSQL there is
}
