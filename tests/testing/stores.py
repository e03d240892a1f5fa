"""The databases on which labs are tested, by URL and without a namespace: a lab makes its own."""

from collections.abc import Callable
from pathlib import Path

from tests.stores.nats import servers as nats_servers
from tests.stores.postgres import shared as postgres_servers
from tests.stores.redis import servers as redis_servers

URLS: dict[str, Callable[[Path], str]] = {
    "memory": lambda _: "memory://",
    "sqlite": lambda folder: f"sqlite:///{folder / 'jobs.db'}",
    "postgres": lambda _: postgres_servers.server("pg18").url(),
    "redis": lambda _: redis_servers.shared(redis_servers.bundled()).url,
    "nats": lambda _: nats_servers.shared().url,
}
