"""The stores of these tests. A new store is one more entry: a context that returns its URL."""

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path

from tests.stores.nats import servers as nats_servers
from tests.stores.postgres import shared as postgres_servers
from tests.stores.redis import servers as redis_servers


@contextmanager
def sqlite(folder: Path) -> Iterator[str]:
    yield f"sqlite:///{folder}/jobs.db"


@contextmanager
def postgres(_: Path) -> Iterator[str]:
    yield postgres_servers.fresh_url()


@contextmanager
def redis(_: Path) -> Iterator[str]:
    server = redis_servers.shared(redis_servers.bundled())
    yield f"{server.url}?namespace=end_{redis_servers.fresh_namespace()}"


@contextmanager
def nats(_: Path) -> Iterator[str]:
    yield f"{nats_servers.shared().url}?namespace=end_{nats_servers.fresh_namespace()}"


STORES: dict[str, Callable[[Path], AbstractContextManager[str]]] = {
    "sqlite": sqlite,
    "postgres": postgres,
    "redis": redis,
    "nats": nats,
}
