"""I15: a record that cannot be read is set aside in sight, and nothing else stops for it.

The daily run spoils every field of every record with every kind of garbage, all in one store, and
some of them each in a store of its own. `MITA_SOAK=1` does all of them each by itself, and adds
garbage made by chance; `MITA_SEED=n` chooses others."""

import os
import random
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.stores.nats import servers as nats_servers
from tests.stores.postgres import shared as postgres_servers
from tests.stores.redis import servers as redis_servers

from .harness import ROLES, Layout, alone, shake
from .nats import NatsLayout
from .postgres import PostgresLayout
from .redis import RedisLayout
from .sqlite import SqliteLayout

SOAK = "MITA_SOAK" in os.environ
SEED = int(os.environ.get("MITA_SEED", "1"))
SOME = random.Random(SEED).sample(range(1000), 1000 if SOAK else 6)


def sqlite(folder: Path, n: int) -> tuple[str, Layout]:
    file = folder / f"jobs{n}.db"
    return f"sqlite:///{file}", SqliteLayout(file, SEED if SOAK else None)


def postgres(_: Path, __: int) -> tuple[str, Layout]:
    url = postgres_servers.fresh_url()
    return url, PostgresLayout(url, SEED if SOAK else None)


def nats(_: Path, __: int) -> tuple[str, Layout]:
    url = f"{nats_servers.shared().url}?namespace=lost_{nats_servers.fresh_namespace()}"
    return url, NatsLayout(url, SEED if SOAK else None)


def redis(_: Path, __: int) -> tuple[str, Layout]:
    server = redis_servers.shared(redis_servers.bundled())
    url = f"{server.url}?namespace=lost_{redis_servers.fresh_namespace()}"
    return url, RedisLayout(url, SEED if SOAK else None)


STORES: dict[str, Callable[[Path, int], tuple[str, Layout]]] = {
    "sqlite": sqlite,
    "postgres": postgres,
    "redis": redis,
    "nats": nats,
}


@pytest.mark.timeout(600)
@pytest.mark.parametrize("store", STORES)
async def test_every_field_of_every_record(store: str, tmp_path: Path) -> None:
    await shake(*STORES[store](tmp_path, 0), ROLES)


@pytest.mark.timeout(3600 if SOAK else 300)
@pytest.mark.parametrize("role", ROLES)
@pytest.mark.parametrize("store", STORES)
async def test_one_field_of_one_record(store: str, role: str, tmp_path: Path) -> None:
    for n in SOME:
        await alone(*STORES[store](tmp_path, n), role, n)
