"""Errors of servers, addresses and names: a clear message, and never an injected subject."""

import asyncio
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from mita.errors import MitaError, Rejected, StoreError, UsageError
from mita.model.job import State
from mita.model.outcome import Answer, CancelJob
from mita.model.time import HOUR
from mita.stores.nats import NatsStore, parse
from mita.stores.nats.stream import schema
from mita.stores.nats.stream.subjects import Subjects, name, token
from mita.testing.contract.given import (
    LONG,
    SHORT,
    claim_one,
    claimed_ids,
    job,
    look,
    put,
    settled,
    state_of,
    succeed,
)

from .servers import Server, free_port

ODD = [
    "a.b",
    "*",
    ">",
    "a b",
    "=",
    "==2a",
    "a.>",
    "tab\tnew\nline",
    "東京",
    "🙂.*",
    "h.q.1",
    "-",
    "a" * 128,
]


@pytest.fixture
def serve() -> Iterator[Callable[..., Server]]:
    servers: list[Server] = []

    def start(more: str = "", *, jetstream: str = "") -> Server:
        servers.append(Server(more, jetstream=jetstream).start())
        return servers[-1]

    yield start
    for server in servers:
        server.remove()


async def refusal(store: NatsStore) -> MitaError:
    with pytest.raises(MitaError) as caught:
        await store.open()
    return caught.value


async def test_no_server() -> None:
    error = await refusal(NatsStore(f"nats://secret:word@127.0.0.1:{free_port()}"))
    assert isinstance(error, StoreError)
    assert error.transient
    assert error.__cause__ is not None
    assert "cannot reach NATS at" in str(error)
    assert "Start the server, or fix the URL" in str(error)
    assert "word" not in str(error), "a password is not for the log"


async def test_a_server_that_closes_the_connection_at_once_may_be_starting() -> None:
    """A worker waits for it, and does not end."""
    server = await asyncio.start_server(lambda _, writer: writer.close(), "127.0.0.1", 0)
    error = await refusal(NatsStore(f"nats://127.0.0.1:{server.sockets[0].getsockname()[1]}"))
    server.close()
    assert isinstance(error, StoreError)
    assert error.transient, error


async def test_jetstream_is_not_enabled(serve: Callable[..., Server]) -> None:
    error = await refusal(NatsStore(serve(jetstream="off").url))
    assert isinstance(error, StoreError)
    assert not error.transient
    assert "JetStream is not enabled" in str(error)


async def test_a_wrong_password(serve: Callable[..., Server]) -> None:
    server = serve("authorization { user: u, password: p }")
    error = await refusal(NatsStore(server.url, options={"user": "u", "password": "wrong"}))
    assert isinstance(error, StoreError)
    assert not error.transient
    store = parse(f"nats://u:p@127.0.0.1:{server.port}?namespace=shop")
    await store.open()
    await store.close()


async def test_a_token(serve: Callable[..., Server]) -> None:
    server = serve("authorization { token: t0p }")
    store = parse(f"nats://t0p@127.0.0.1:{server.port}")
    await store.open()
    [receipt] = await store.enqueue([job()])
    assert receipt.created
    await store.close()


RIGHTS = """
authorization {{ users: [
  {{ user: all, password: p }},
  {{ user: few, password: p, permissions: {{ publish: {{ deny: ["{denied}"] }} }} }}
] }}
"""


@pytest.mark.parametrize("denied", ["mita.mita.j.r.>", "$JS.API.STREAM.INFO.>", "$JS.API.>"])
async def test_no_permission_for_a_subject(serve: Callable[..., Server], denied: str) -> None:
    server = serve(RIGHTS.format(denied=denied))
    boss = NatsStore(server.url, options={"user": "all", "password": "p"})
    await boss.open()
    store = NatsStore(server.url, options={"user": "few", "password": "p"})

    async def use() -> None:
        await store.open()
        await store.enqueue([job()])

    with pytest.raises(StoreError, match="may not") as caught:
        await use()
    assert not caught.value.transient
    await store.close()
    await boss.close()


async def test_the_storage_is_full(serve: Callable[..., Server]) -> None:
    """I15: refused in sight, and it works again when there is room."""
    store = NatsStore(serve(jetstream="max_file_store: 2MB").url)
    await store.open()

    async def fill() -> None:
        for _ in range(400):
            await store.enqueue([job(payload=bytes(20_000))])

    with pytest.raises(StoreError) as caught:
        await fill()
    assert caught.value.transient
    assert "room" in str(caught.value)
    await store.close()


async def test_a_message_that_is_too_big(store: NatsStore) -> None:
    with pytest.raises(UsageError, match="max_payload"):
        await store.enqueue([job(payload=bytes(2_000_000))])
    assert await put(store), "and the connection is as good as before"


async def test_a_stream_of_that_name_that_is_not_ours(store: NatsStore) -> None:
    wire = store.context.wire
    await wire.api("STREAM.CREATE.mita_theirs", {"name": "mita_theirs", "subjects": ["theirs.>"]})
    error = await refusal(NatsStore(store._servers, namespace="theirs"))
    assert isinstance(error, UsageError)
    assert "not Mita's" in str(error)


async def test_another_stream_has_our_subjects(store: NatsStore) -> None:
    wire = store.context.wire
    await wire.api("STREAM.CREATE.other", {"name": "other", "subjects": ["mita.overlap.j.h.*.*.*"]})
    error = await refusal(NatsStore(store._servers, namespace="overlap"))
    assert isinstance(error, StoreError)
    assert not error.transient
    await wire.api("STREAM.DELETE.other")


async def test_a_server_that_would_ignore_schedules(
    store: NatsStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(schema, "OLDEST_SERVER", (99, 0, 0))
    error = await refusal(NatsStore(store._servers, namespace="old"))
    assert isinstance(error, StoreError)
    assert "too old" in str(error)
    assert "99.0.0" in str(error)


@pytest.mark.parametrize("dropped", schema.NEEDED_SETTINGS)
def test_a_setting_that_the_server_silently_dropped(dropped: str) -> None:
    subjects = Subjects("x")
    echoed = schema.stream_config(subjects, 1)
    del echoed[dropped]
    with pytest.raises(StoreError, match=r"needs 2\.12\.1"):
        schema._check(echoed, subjects, "2.10.26")


async def test_a_stream_that_a_newer_mita_made(
    store: NatsStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(schema, "SCHEMA", "0")
    with pytest.raises(UsageError, match="upgrade"):
        await store.migrate()


@pytest.mark.parametrize("odd", ODD)
def test_names_are_one_token_and_come_back(odd: str) -> None:
    made = token(odd)
    assert not set(made) & set(".*> \t\n")
    assert name(made) == odd


def test_different_names_are_different_tokens() -> None:
    assert len({token(odd) for odd in ODD}) == len(ODD)


@pytest.mark.parametrize("odd", ODD)
async def test_odd_names_in_every_verb(store: NatsStore, odd: str) -> None:
    id = await put(store, queue=odd, id=f"{odd}!", resource=odd, unique=odd)
    bystander = await put(store, queue="plain")
    assert (await look(store, id)).queue == odd
    claim = await claim_one(store, queue=odd)
    assert claim.id == id
    assert await store.amend([id], CancelJob(keep=HOUR)) == [Answer.ASKED]
    await settled(store, succeed(claim))
    assert (await look(store, id)).state is State.CANCELLED
    assert (await look(store, bystander)).state is State.QUEUED
    assert sorted(await store.queue_names()) == sorted([odd, "plain"])


@pytest.mark.parametrize("id", ["*", ">", "a.b", "*.*", "h.>", ""])
async def test_an_id_with_wildcards_finds_no_job(store: NatsStore, id: str) -> None:
    real = await put(store)
    assert await store.find([id]) == [None]
    assert await store.amend([id], CancelJob(keep=0)) == [Answer.UNKNOWN]
    assert (await look(store, real)).state is State.QUEUED


# ---------------------------------------------------------------- addresses


def test_an_address_in_full(tmp_path: Path) -> None:
    (tmp_path / "me.creds").touch()
    store = parse(
        f"nats://user:p%40ss@one:4223,two?namespace=shop&replicas=3&creds={tmp_path}/me.creds"
    )
    assert store._servers == ["nats://one:4223", "nats://two:4222"]
    assert store._subjects.stream == "mita_shop"
    assert store._replicas == 3
    assert store._options == {
        "user": "user",
        "password": "p@ss",
        "user_credentials": f"{tmp_path}/me.creds",
    }


def test_tls() -> None:
    assert "tls" in parse("tls://one")._options


@pytest.mark.parametrize(
    "url",
    [
        "http://one",
        "nats://",
        "nats://one:port",
        "nats://one/two",
        "nats://o ne",
        "nats://one?colour=red",
        "nats://one?replicas=two",
        "nats://one?replicas=2",
        "nats://one?namespace=A.b",
        "nats://one,",
    ],
)
def test_an_address_that_cannot_be_right(url: str) -> None:
    with pytest.raises(UsageError):
        parse(url)


async def test_a_store_that_is_not_open() -> None:
    with pytest.raises(StoreError, match="not open"):
        await NatsStore("nats://localhost").now()


async def test_arguments_that_leave_no_room_for_the_timeline_are_refused(
    serve: Callable[..., Server],
) -> None:
    """I15: otherwise the job could be enqueued but not settled."""
    store = NatsStore(serve("max_payload: 100000").url)
    await store.open()
    assert store.room == 71_928, "three quarters of what headers and keys leave"
    with pytest.raises(UsageError, match=r"'t'.*take 71,929 bytes.*room for 71,928.*max_payload"):
        await store.enqueue([job(), job(task="t", payload=b"x" * 71_929)])
    assert sum(queue.ready for queue in await store.queues()) == 0
    await put(store, payload=b"x" * 71_928)
    claim = await claim_one(store)
    assert await store.settle([succeed(claim)]) == [True]
    await store.close()


async def test_a_max_payload_that_was_made_smaller_stops_only_the_jobs_that_are_too_large_for_it(
    serve: Callable[..., Server],
) -> None:
    """I12 I15: those jobs wait in their queue until it is raised again, also the running ones."""
    server = serve("max_payload: 65536")
    store = NatsStore(server.url)
    await store.open()
    ran = await put(store, payload=b"r" * 40_000)
    held = await claim_one(store, lease=SHORT)
    waits = await put(store, payload=b"w" * 40_000)
    keyed = await put(store, payload=b"k" * 40_000, resource="r")
    await store.close()
    server.set("max_payload: 16384")

    small = NatsStore(server.url)
    await small.open()
    lean = [await put(small), await put(small, resource="s")]
    assert sorted(await claimed_ids(small)) == sorted(lean)
    with pytest.raises(Rejected):
        await small.settle([succeed(held)])
    assert await small.reap(10, LONG, "w2") == [], "its lease has run out, and it cannot be written"
    assert [await state_of(small, id) for id in (ran, waits, keyed)] == [
        State.RUNNING,
        State.QUEUED,
        State.QUEUED,
    ]
    await small.close()
    server.set("max_payload: 65536")

    store = NatsStore(server.url)
    await store.open()
    found: set[str] = set()
    async with asyncio.timeout(60):
        while found < {ran, waits, keyed}:
            found |= set(await claimed_ids(store)) | {
                claim.id for claim in await store.reap(10, LONG, "w2")
            }
            await asyncio.sleep(0.1)
    await store.close()
