"""Errors of the server are explained, and an enqueue is never done in part."""

import asyncio
import socket
import threading
from collections.abc import AsyncIterator, Callable, Iterator

import pytest
import redis

from mita.errors import StoreError, UsageError
from mita.model.job import Receipt, State
from mita.model.outcome import Settlement
from mita.rules.judge import success
from mita.stores.redis import RedisStore
from mita.stores.shared.words import UNREACHED

from .load import QUEUE, jobs
from .servers import Server, bundled, free_port


@pytest.fixture
async def store(server: Server) -> AsyncIterator[RedisStore]:
    store = RedisStore(server.url)
    await store.open()
    yield store
    await store.close()


@pytest.fixture
def start() -> Iterator[Callable[..., Server]]:
    started: list[Server] = []

    def begin(*options: str) -> Server:
        started.append(Server(bundled(), *options).start())
        return started[-1]

    yield begin
    for server in started:
        server.stop()


async def opening(url: str) -> StoreError:
    with pytest.raises(StoreError) as caught:
        await RedisStore(url).open()
    return caught.value


async def test_a_wrong_password_is_explained(start: Callable[..., Server]) -> None:
    server = start("--requirepass", "right")
    error = await opening(f"redis://:wrong@127.0.0.1:{server.port}")
    assert "password" in str(error)
    assert "wrong" not in str(error).split("(")[0], "the password is not shown"
    assert not error.transient
    assert isinstance(error.__cause__, redis.RedisError)
    error = await opening(server.url)
    assert "password" in str(error)
    assert not error.transient
    store = RedisStore(f"redis://:right@127.0.0.1:{server.port}")
    await store.open()
    await store.close()


async def test_an_unreachable_server_is_a_transient_error(start: Callable[..., Server]) -> None:
    error = await opening(f"redis://127.0.0.1:{free_port()}")
    assert "cannot reach the server" in str(error)
    assert UNREACHED in str(error)
    assert error.transient
    assert isinstance(error.__cause__, redis.ConnectionError)


async def test_an_unreachable_cluster_is_a_store_error() -> None:
    error = await opening(f"redis+cluster://127.0.0.1:{free_port()}")
    assert UNREACHED in str(error)
    assert error.transient


async def test_a_server_that_stays_unreachable_is_an_error_after_a_while(
    start: Callable[..., Server],
) -> None:
    server = start()
    store = RedisStore(server.url)
    await store.open()
    server.kill()
    with pytest.raises(StoreError, match="cannot reach") as caught:
        await store.enqueue(jobs(1))
    assert caught.value.transient
    await store.close()


@pytest.mark.parametrize(
    "key", ["jobs", "meta", "unique", "unique_ends", "live", "result", "ready:5"]
)
async def test_a_key_of_another_type_is_found_before_anything_is_written(
    server: Server, store: RedisStore, key: str
) -> None:
    with server.client() as client:
        client.set(f"mita:{{{QUEUE}}}:{key}", "not ours")
        before = sorted(client.keys("*"))
        with pytest.raises(StoreError, match="not ours") as caught:
            await store.enqueue(jobs(2, unique="u"))
        assert not caught.value.transient
        assert isinstance(caught.value.__cause__, redis.ResponseError)
        assert sorted(client.keys("*")) == before


@pytest.mark.parametrize("key", ["jobs", "meta", "ready:5"])
async def test_a_key_of_another_type_is_found_in_a_used_queue_too(
    server: Server, store: RedisStore, key: str
) -> None:
    await store.enqueue(jobs(1))
    with server.client() as client:
        client.delete(f"mita:{{{QUEUE}}}:{key}")
        client.set(f"mita:{{{QUEUE}}}:{key}", "not ours")
        before = {name: client.dump(name) for name in client.keys("*")}
        with pytest.raises(StoreError, match="not ours"):
            await store.enqueue(jobs(2))
        assert {name: client.dump(name) for name in client.keys("*")} == before


@pytest.mark.parametrize("key", ["lease", "succeeded", "expiry", "result", "runs", "left"])
async def test_a_settlement_with_a_key_of_another_type_writes_nothing(
    server: Server, store: RedisStore, key: str
) -> None:
    await store.enqueue(jobs(2))
    claims = (await store.claim([QUEUE], 10, 60_000, "w1")).claims
    keep = 0 if key == "left" else 1000
    done = [Settlement(claim, success(b"", keep)) for claim in claims]
    with server.client() as client:
        client.delete(f"mita:{{{QUEUE}}}:{key}")
        client.set(f"mita:{{{QUEUE}}}:{key}", "not ours")
        with pytest.raises(StoreError, match="not ours"):
            await store.settle(done)
        client.delete(f"mita:{{{QUEUE}}}:{key}")
    assert {job.state for job in await store.find([claim.id for claim in claims]) if job} == {
        State.RUNNING
    }


@pytest.mark.parametrize("key", ["live", "lease", "runs", "left"])
async def test_a_claim_with_a_key_of_another_type_writes_nothing(
    server: Server, store: RedisStore, key: str
) -> None:
    await store.enqueue(jobs(10))  # enough for a lease together
    with server.client() as client:
        client.delete(f"mita:{{{QUEUE}}}:{key}")
        client.set(f"mita:{{{QUEUE}}}:{key}", "not ours")
        with pytest.raises(StoreError, match="not ours"):
            await store.claim([QUEUE], 10, 1000, "w1")
        assert client.llen(f"mita:{{{QUEUE}}}:ready:5") == 10


async def test_a_replica_is_refused(start: Callable[..., Server]) -> None:
    primary = start()
    replica = start("--replicaof", "127.0.0.1", str(primary.port))
    error = await opening(replica.url)
    assert "read-only replica" in str(error)
    assert not error.transient


async def test_a_server_that_becomes_a_replica_may_change_again(
    server: Server, store: RedisStore
) -> None:
    with server.client() as client:
        client.replicaof("127.0.0.1", str(free_port()))
        with pytest.raises(StoreError, match="read-only replica") as caught:
            await store.enqueue(jobs(1))
    assert caught.value.transient


async def test_a_full_server_stores_a_whole_batch_or_nothing(
    server: Server, store: RedisStore
) -> None:
    """I13"""
    with server.client() as client:
        client.config_set("maxmemory", 3_000_000)
        taken: list[Receipt] = []
        with pytest.raises(StoreError, match="out of memory") as caught:
            await fill(store, taken)
        assert caught.value.transient
        client.config_set("maxmemory", 0)
    assert [view.ready for view in await store.queues()] == [len(taken)]


async def fill(store: RedisStore, taken: list[Receipt]) -> None:
    while True:
        taken += await store.enqueue(jobs(100, payload=b"x" * 1000))


async def test_a_script_that_was_killed_wrote_nothing(server: Server, store: RedisStore) -> None:
    """Another client's script keeps the server busy; our call waits, and its error says so."""
    with server.client() as client:
        client.config_set("lua-time-limit", 10)

    def hog() -> None:
        with server.client() as client, pytest.raises(redis.ResponseError, match="killed"):
            client.eval("while true do end", 0)

    thread = threading.Thread(target=hog)
    thread.start()
    await asyncio.sleep(0.1)
    with pytest.raises(StoreError, match="busy with a script") as caught:
        await store.enqueue(jobs(1))
    assert caught.value.transient
    with server.client() as client:
        client.script_kill()
    thread.join()
    assert await store.queues() == []


async def test_our_own_script_can_be_killed(server: Server, store: RedisStore) -> None:
    with server.client() as client:
        client.config_set("lua-time-limit", 10)
    killer = threading.Timer(0.2, _kill, [server])
    killer.start()
    with pytest.raises(StoreError, match="killed the script") as caught:
        await store.context.connection.command_once("EVAL", "while true do end", 0)
    assert caught.value.transient
    killer.join()


def _kill(server: Server) -> None:
    with server.client() as client:
        client.script_kill()


async def test_a_server_that_evicts_keys_is_refused(server: Server) -> None:
    """I11"""
    with server.client() as client:
        client.config_set("maxmemory-policy", "allkeys-lru")
    error = await opening(server.url)
    assert "allkeys-lru" in str(error)
    assert "allow_eviction" in str(error)
    assert not error.transient
    store = RedisStore(f"{server.url}?allow_eviction=1")
    await store.open()
    assert any("deletes jobs" in finding.found for finding in await store.doctor())
    await store.close()


@pytest.mark.parametrize(
    "url",
    [
        "http://localhost",
        "redis://localhost/0?nonsense=1",
        "redis://localhost/0?namespace=Not-Good",
        "redis://localhost/0?timeout=soon",
        "redis://localhost:port",
        "redis://localhost/jobs",
    ],
)
def test_an_address_that_cannot_be_used_says_why(url: str) -> None:
    with pytest.raises(UsageError):
        RedisStore(url)


async def test_a_database_number_that_does_not_exist(server: Server) -> None:
    error = await opening(f"redis://127.0.0.1:{server.port}/99")
    assert not error.transient


async def test_a_store_that_was_closed_says_so(server: Server) -> None:
    store = RedisStore(server.url)
    await store.open()
    await store.close()
    with pytest.raises(StoreError, match="not open"):
        await store.enqueue(jobs(1))
    await store.close()
    await RedisStore(server.url).close()


def test_making_a_store_connects_to_nothing() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        listener.setblocking(False)
        RedisStore(f"redis://127.0.0.1:{listener.getsockname()[1]}")
        with pytest.raises(BlockingIOError):  # no connection waits to be accepted
            listener.accept()
