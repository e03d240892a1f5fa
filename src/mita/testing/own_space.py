"""A place of its own for the jobs of each lab, which is removed when the lab ends: a namespace in
the given database, or a file beside the given one. Labs never see each other's jobs or those of a
running application, so tests can run in parallel."""

from secrets import token_hex
from typing import Any

from msgspec import Struct

from mita.errors import UsageError
from mita.settings import StoreURL
from mita.stores.registry import parse_url

from .clock import START, FakeClock, UnmovableClock

MEMORY_URL = "memory://"
REMOVE_TIMEOUT_MS = 5000  # for locks that a transaction of the test still holds
SCAN_KEYS = 1000  # in one call


class LabSpace(Struct, frozen=True):
    """Where the jobs of one lab are."""

    url: str
    namespace: str | None = None

    @property
    def scheme(self) -> str:
        """The scheme of the URL."""
        return self.url.partition("://")[0]

    @property
    def is_served_by_nats(self) -> bool:
        """Whether the store is NATS, whose clock cannot be moved."""
        return self.scheme in ("nats", "tls")

    def new_clock(self, start: Any) -> FakeClock:
        """The clock of the lab."""
        if not self.is_served_by_nats:
            return FakeClock(START if start is None else start)
        if start is not None:
            raise UsageError("start=: a NATS server has its own clock, which a test cannot set")
        return UnmovableClock()

    async def remove(self) -> None:
        """Remove everything that the lab has stored. What another package's store keeps is left
        there."""
        parsed = StoreURL.parse(self.url, self.namespace)
        match self.scheme:
            case "sqlite":
                for file in parsed.path.parent.glob(f"{parsed.path.name}*"):
                    file.unlink()
            case "postgresql" | "postgres":
                await _remove_schema(parsed)
            case "redis" | "rediss" | "unix" | "redis+cluster":
                await _remove_keys(parsed)
            case "nats" | "tls":
                await _remove_stream(parsed)


def own_space(url: str | None) -> LabSpace:
    """A new place in the database of this URL; None: in memory. Raises `UsageError` for a URL that
    no store can use."""
    parsed = parse_url(url or MEMORY_URL)
    own = f"lab_{token_hex(5)}"
    if parsed.scheme == "memory":
        return LabSpace(MEMORY_URL)
    if parsed.scheme == "sqlite":
        path = parsed.path.absolute()
        return LabSpace(f"sqlite:///{path.with_name(f'{path.stem}_{own}{path.suffix}')}")
    return LabSpace(parsed.text, f"{parsed.namespace}_{own}")


async def _remove_schema(url: StoreURL) -> None:
    import psycopg
    from psycopg import sql

    from mita.stores.postgres.server.connect import parse

    params, _ = parse(url.text)
    schema = sql.Identifier(url.namespace)
    async with await psycopg.AsyncConnection.connect(**params, autocommit=True) as connection:
        await connection.execute(f"set lock_timeout = {REMOVE_TIMEOUT_MS}")
        try:
            await connection.execute(sql.SQL("drop schema if exists {} cascade").format(schema))
        except psycopg.errors.LockNotAvailable as error:
            raise UsageError(
                f"the lab cannot remove its schema {url.namespace!r}: a transaction of the test "
                "still uses its jobs. Commit it or roll it back before the lab ends; as a pytest "
                "fixture, name mita_lab before the fixture that opens the transaction"
            ) from error


async def _remove_keys(url: StoreURL) -> None:
    from mita.stores.redis import RedisStore
    from mita.stores.redis.client.address import read_address

    if read_address(url.text, url.namespace).cluster:
        await _remove_cluster_keys(url)
        return
    store = RedisStore(url.text, namespace=url.namespace)
    await store.open()
    try:
        cursor: Any = 0
        while True:
            cursor, keys = await store.context.connection.command(
                "SCAN", cursor, "MATCH", f"{url.namespace}:*", "COUNT", SCAN_KEYS
            )
            if keys:
                await store.context.connection.command("UNLINK", *keys)
            if int(cursor) == 0:
                return
    finally:
        await store.close()


async def _remove_cluster_keys(url: StoreURL) -> None:
    from redis.asyncio.cluster import RedisCluster

    from mita.stores.redis.client.address import read_address

    address = read_address(url.text, url.namespace)
    unused = ("db", "connection_class")
    options = {name: value for name, value in address.driver.items() if name not in unused}
    cluster = RedisCluster(**options)
    try:
        async for key in cluster.scan_iter(match=f"{url.namespace}:*", count=SCAN_KEYS):
            await cluster.unlink(key)
    finally:
        await cluster.aclose()


async def _remove_stream(url: StoreURL) -> None:
    from mita.stores.nats import parse
    from mita.stores.nats.client.errors import refused

    store = parse(url.text, url.namespace)
    await store.open()
    try:
        context = store.context
        answer = await context.wire.api(f"STREAM.DELETE.{context.subjects.stream}")
        if error := answer.get("error"):
            raise refused(error.get("err_code", 0), error.get("description", ""))
    finally:
        await store.close()
