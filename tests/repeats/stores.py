"""Every store and its location, for this process and for others."""

from collections.abc import Callable
from pathlib import Path

from mita.ports.clock import Clock
from mita.ports.store import Store
from mita.stores.memory import MemoryState, MemoryStore
from mita.stores.nats import NatsStore
from mita.stores.postgres import PostgresStore
from mita.stores.redis import RedisStore
from mita.stores.sqlite import SqliteStore
from tests.stores.nats import servers as nats_servers
from tests.stores.postgres import shared as postgres_servers
from tests.stores.redis import servers as redis_servers

Handles = Callable[[], Store]  # each call makes another handle on the same data

KINDS = ("memory", "sqlite", "postgres", "redis", "nats")
SHARED = KINDS[1:]  # stores that processes can share
NO_FAKE_CLOCK = {"nats"}


def address(kind: str, folder: Path) -> tuple[str, str]:
    """URL or path, and namespace, of an empty store."""
    match kind:
        case "sqlite":
            return str(folder / "jobs.db"), "mita"
        case "postgres":
            return postgres_servers.fresh_url(), "mita"
        case "redis":
            return redis_servers.shared(
                redis_servers.bundled()
            ).url, redis_servers.fresh_namespace()
        case "nats":
            return nats_servers.shared().url, nats_servers.fresh_namespace()
    raise AssertionError(kind)


def handle(kind: str, url: str, namespace: str, clock: Clock | None = None) -> Store:
    match kind:
        case "sqlite":
            return SqliteStore(Path(url), namespace, clock)
        case "postgres":
            return PostgresStore(url, clock=clock)
        case "redis":
            return RedisStore(url, namespace=namespace, clock=clock)
        case "nats":
            return NatsStore(url, namespace=namespace)
    raise AssertionError(kind)


def handles(kind: str, folder: Path, clock: Clock | None) -> Handles:
    if kind == "memory":
        state = MemoryState()
        return lambda: MemoryStore(state, clock)
    url, namespace = address(kind, folder)
    return lambda: handle(kind, url, namespace, clock)
