"""Removed messages stay removed when the server is killed and started again on the same directory:
one server, and three. A killed server reads its messages from disk again; a removal that it did not
write to disk is undone."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any

import pytest
from msgspec import Struct

from mita.errors import StoreError, UsageError
from mita.model.audit import AuditEntry
from mita.model.gate import StoredLimit
from mita.model.job import Claim, State, WhenBusy
from mita.model.outcome import CancelJob, Counter, Settlement, TimelineKind, Verdict
from mita.model.repeat import Repeat
from mita.model.time import MINUTE, When
from mita.ports.store import OnceValue
from mita.stores.nats import NatsStore, settle
from mita.stores.nats.stream import job_records, repair, schema
from mita.stores.nats.stream.job_records import TOMBSTONE, TTL
from mita.stores.nats.stream.subjects import RecordKind
from mita.testing.contract.given import LONG, QUEUE, claimed_ids, fail, job, settled, succeed
from tests.waiting import until

from .servers import Cluster, Server
from .test_cluster import opened

pytestmark = pytest.mark.timeout(300)


class Deployment(Struct):
    """A store, and how to kill and start its servers."""

    store: NatsStore
    restart: Callable[[], None]
    again: Callable[[], Awaitable[NatsStore]]


@pytest.fixture(params=["one server", "three servers"])
async def deployment(request: pytest.FixtureRequest) -> AsyncIterator[Deployment]:
    servers = [Server()] if request.param == "one server" else Cluster().servers
    for server in servers:
        server.start()

    async def again() -> NatsStore:
        if len(servers) > 1:
            cluster = Cluster.__new__(Cluster)
            cluster.servers = servers
            return await opened(cluster, "mita")
        store = NatsStore(servers[0].url)
        await store.open()
        return store

    def restart() -> None:
        for server in servers:
            server.kill()
        for server in servers:
            server.start()

    deployment = Deployment(await again(), restart, again)
    yield deployment
    await deployment.store.close()
    for server in servers:
        server.remove()


async def restarted(deployment: Deployment) -> NatsStore:
    """The same store after a crash of its servers."""
    await deployment.store.close()
    deployment.restart()
    deployment.store = await deployment.again()
    return deployment.store


async def _holds(condition: Callable[[], Awaitable[bool]]) -> bool:
    try:
        return await condition()
    except StoreError:  # a cluster that is electing its leaders
        return False


async def next_claim(store: NatsStore) -> Claim:
    """Claims the next job. A consumer that elects its leader delivers nothing for a moment."""
    found: list[Claim] = []

    async def comes() -> bool:
        found.extend((await store.claim([QUEUE], 1, LONG, "w1")).claims)
        return bool(found)

    await until(lambda: _holds(comes))
    return found[0]


async def enqueued(store: NatsStore, **more: Any) -> str:
    """Enqueues a job and returns its id. A cluster that was just started may not answer at once."""
    new = job(**more)

    async def there() -> bool:
        await store.enqueue([new])
        return await store.find([new.id]) != [None]

    await until(lambda: _holds(there))
    return new.id


async def started(store: NatsStore, **more: Any) -> Claim:
    """A job that is being run."""
    id = await enqueued(store, **more)
    claim = await next_claim(store)
    assert claim.id == id
    return claim


async def messages(store: NatsStore, *kinds: RecordKind) -> list[str]:
    """Returns the subjects of these kinds that have a message."""
    return [
        found.subject
        for kind in kinds
        for found in await store.context.reader.all(store._subjects.all(kind))
    ]


async def none_left(store: NatsStore, *kinds: RecordKind) -> None:
    async def empty() -> bool:
        return not await messages(store, *kinds)

    await until(lambda: _holds(empty))


@pytest.fixture
def short_tombstones(monkeypatch: pytest.MonkeyPatch) -> None:
    """The record of a deleted job stays for one second."""
    gone = TOMBSTONE[0], TTL % 1
    monkeypatch.setattr(job_records, "TOMBSTONE", gone)
    monkeypatch.setattr(settle, "TOMBSTONE", gone)


# ---------------------------------------------------------------- tests


async def test_keys_of_jobs_that_have_ended_are_free(deployment: Deployment) -> None:
    """I1 I5 I12: jobs with resource keys and unique keys run, the server is killed, and one more
    job for each key runs."""
    keys = [f"account:{n}" for n in range(4)]
    for key in keys:
        await settled(
            deployment.store, succeed(await started(deployment.store, resource=key, unique=key))
        )
    await none_left(deployment.store, RecordKind.RESOURCE_KEY, RecordKind.UNIQUE_KEY)
    store = await restarted(deployment)
    assert await messages(store, RecordKind.RESOURCE_KEY, RecordKind.UNIQUE_KEY) == []
    again = [await enqueued(store, resource=key, unique=key) for key in keys]
    assert {(await next_claim(store)).id for _ in again} == set(again)


async def test_waiters_stay_as_they_were(deployment: Deployment) -> None:
    """I9 I12: jobs wait for a key, each for the one before."""
    ids = [await enqueued(deployment.store, resource="a") for _ in range(5)]
    for id in ids:
        claim = await next_claim(deployment.store)
        assert claim.id == id
        assert await claimed_ids(deployment.store) == [], "the others are sent away from the key"
        await settled(deployment.store, succeed(claim))
    await none_left(deployment.store, RecordKind.RESOURCE_KEY, RecordKind.WAITER)
    store = await restarted(deployment)
    assert await messages(store, RecordKind.RESOURCE_KEY, RecordKind.WAITER) == []


@pytest.mark.usefixtures("short_tombstones")
async def test_deleted_jobs_do_not_come_back(deployment: Deployment) -> None:
    """I10 I13: plain jobs, retried jobs, and jobs with a progress report."""
    for n in range(6):
        claim = await started(deployment.store)
        if n % 2:
            await deployment.store.extend([claim], LONG)
        if n > 3:
            again = Verdict(state=State.QUEUED, when=When(), counts=Counter.ATTEMPTS)
            await settled(deployment.store, Settlement(claim, again))
            claim = await next_claim(deployment.store)
        await settled(deployment.store, succeed(claim, keep=0))
    cancelled = await enqueued(deployment.store)
    await deployment.store.amend([cancelled], CancelJob(keep=0))
    await none_left(deployment.store, RecordKind.JOB)
    store = await restarted(deployment)
    assert await messages(store, RecordKind.JOB, RecordKind.CLAIM_LIST) == []
    [queue] = await store.queues()
    assert (queue.running, queue.ready, queue.scheduled) == (0, 0, 0)
    assert await claimed_ids(store) == []


async def test_pruned_jobs_do_not_come_back(deployment: Deployment) -> None:
    """I13"""
    for _ in range(5):
        await settled(deployment.store, succeed(await started(deployment.store)))
    assert await deployment.store.prune(10, 0) == 5
    store = await restarted(deployment)
    assert (await store.queues())[0].running == 0
    assert await messages(store, RecordKind.JOB) == []


async def test_schedules_that_fired_leave_nothing_behind(
    deployment: Deployment,
) -> None:
    """I4 I13: a retry at a later time is a schedule, which the server removes when it fires."""
    claim = await started(deployment.store)
    later = Verdict(
        state=State.QUEUED, when=When(600), counts=Counter.ATTEMPTS, event=TimelineKind.RETRIED
    )
    await settled(deployment.store, Settlement(claim, later))

    async def moved() -> bool:
        return all(
            ".j.r." in subject for subject in await messages(deployment.store, RecordKind.JOB)
        )

    await until(lambda: _holds(moved))
    store = await restarted(deployment)
    assert (await next_claim(store)).id == claim.id
    [found] = await store.find([claim.id])
    assert found is not None
    assert (found.attempts, found.token) == (1, claim.token + 1)


async def test_removed_repeats_do_not_come_back(deployment: Deployment) -> None:
    """I7"""
    repeat = Repeat(key="digest", spec=b"spec", cursor=0)
    await deployment.store.put_repeat(repeat)
    await deployment.store.pause_repeats(["digest"])
    await deployment.store.resume_repeats(["digest"])
    assert await deployment.store.remove_repeats(["digest"]) == [True]
    await none_left(deployment.store, RecordKind.REPEAT)
    store = await restarted(deployment)
    assert await store.list_repeats() == []


async def test_locks_workers_once_values_and_claim_lists_do_not_come_back(
    deployment: Deployment,
) -> None:
    store = deployment.store
    for _ in range(2):
        assert await store.lock("fires", "me", MINUTE)
    await store.unlock("fires", "me")
    claim = await started(store)
    await store.store_once(OnceValue(claim=claim, name="name", value=b"value", keep=1000))
    await settled(store, fail(claim, keep=1000))
    await none_left(store, RecordKind.LOCK, RecordKind.SHARED_ONCE, RecordKind.CLAIM_LIST)
    store = await restarted(deployment)
    assert (
        await messages(store, RecordKind.LOCK, RecordKind.SHARED_ONCE, RecordKind.CLAIM_LIST) == []
    )
    assert await store.lock("fires", "another", MINUTE)


# ---------------------------------------------------------------- what an older version left


async def as_the_older_version_made_it(store: NatsStore) -> None:
    config = {
        **schema.stream_config(store._subjects, 1),
        "subjects": store._subjects.stored_in("2"),
        "max_msgs_per_subject": 1,
        "metadata": {"mita": "2"},
        "republish": {
            "src": store._subjects.all_tickets(),
            "dest": f"{store._subjects.root}.bell.>",
            "headers_only": True,
        },
    }
    for verb in ("DELETE", "CREATE"):
        answer = await store.context.wire.api(
            f"STREAM.{verb}.{store._subjects.stream}", None if verb == "DELETE" else config
        )
        assert "error" not in answer, answer


async def test_a_stream_of_an_older_version_sends_wake_ups_after_the_upgrade() -> None:
    server = Server().start()
    old = NatsStore(server.url)
    await old.open()
    await as_the_older_version_made_it(old)
    await old.close()
    store = NatsStore(server.url)
    await store.open()
    await store.wait([QUEUE], 0)  # the first call subscribes
    waiting = asyncio.ensure_future(store.wait([QUEUE], 10))
    await asyncio.sleep(0.1)
    await enqueued(store)
    assert QUEUE in await waiting
    assert await store.migrate() == []
    await store.close()
    server.remove()


@pytest.mark.usefixtures("short_tombstones")
async def test_what_an_older_version_left_is_repaired(monkeypatch: pytest.MonkeyPatch) -> None:
    """I1 I5 I12: its keys, unique keys and deleted jobs come back with the crash; a reap corrects
    that."""
    server = Server().start()
    store = NatsStore(server.url)
    await store.open()
    await as_the_older_version_made_it(store)
    await enqueued(store, queue="other")  # one job stays
    keys = [f"account:{n}" for n in range(3)]
    for key in keys:
        await settled(store, succeed(await started(store, resource=key, unique=key)))
    await settled(
        store, succeed(await started(store, resource="forgotten", unique="forgotten"), keep=0)
    )
    await none_left(store, RecordKind.RESOURCE_KEY, RecordKind.UNIQUE_KEY)
    await until_shown(store, running=0, succeeded=3)
    await store.close()
    server.kill()
    server.start()
    store = NatsStore(server.url)
    await store.open()  # this updates the stream
    assert len(await messages(store, RecordKind.RESOURCE_KEY, RecordKind.UNIQUE_KEY)) == 8, (
        "the older version's removals held: this test shows nothing"
    )
    await until_shown(store, running=1, succeeded=3)
    again = [await enqueued(store, resource=key, unique=key) for key in keys]
    assert await claimed_ids(store) == []
    await store.reap(10, LONG, "sweeper")
    assert sorted(await claimed_ids(store)) == sorted(again)
    monkeypatch.setattr(repair, "ABANDONED_AFTER_MS", -2 * LONG)
    await store.prune(10, 10)
    # running jobs that no worker has are shown as failed
    await until_shown(store, running=3, succeeded=3, failed=1)
    await enqueued(store, resource="forgotten", unique="forgotten")
    assert len(await claimed_ids(store)) == 1
    await store.close()
    server.remove()


async def until_shown(store: NatsStore, **counts: int) -> None:
    """Wait until the queue has these counts, and no job in another state."""

    async def shown() -> bool:
        [view] = [view for view in await store.queues() if view.name == QUEUE]
        states = ("scheduled", "ready", "blocked", "running", "succeeded", "failed", "cancelled")
        return {state: getattr(view, state) for state in states} == dict.fromkeys(
            states, 0
        ) | counts

    await until(lambda: _holds(shown))


async def test_a_stream_without_limits_is_brought_up_to_date() -> None:
    """Schema 3 knew neither rates nor limits of queues. Its jobs stay, and can be limited."""
    server = Server().start()
    old = NatsStore(server.url)
    await old.open()
    config = {
        **schema.stream_config(old._subjects, 1),
        "subjects": old._subjects.stored_in(schema.UNLIMITED_SCHEMA),
        "metadata": {"mita": schema.UNLIMITED_SCHEMA},
    }
    stream = old._subjects.stream
    assert "error" not in await old.context.wire.api(f"STREAM.DELETE.{stream}")
    assert "error" not in await old.context.wire.api(f"STREAM.CREATE.{stream}", config)
    await enqueued(old, resource="a")
    await enqueued(old, resource="a")
    assert len(await claimed_ids(old)) == 1
    await old.close()
    store = NatsStore(server.url)
    with pytest.raises(UsageError, match="mita migrate"):
        await store.open(create=False)
    await store.open()
    await store.limit([QUEUE], "a", StoredLimit(concurrency=2))
    assert len(await claimed_ids(store)) == 1
    await store.limit([QUEUE], None, StoredLimit(concurrency=2))
    await enqueued(store)
    assert await claimed_ids(store) == []
    assert await store.migrate() == []
    await store.close()
    server.remove()


async def test_a_stream_of_the_older_version_is_brought_up_to_date() -> None:
    server = Server().start()
    store = NatsStore(server.url)
    await store.open()
    await as_the_older_version_made_it(store)
    await store.close()
    await store.open()
    info = await store.context.wire.api(f"STREAM.INFO.{store._subjects.stream}")
    assert (info["config"]["max_msgs_per_subject"], info["config"]["metadata"]["mita"]) == (
        -1,
        schema.SCHEMA,
    )
    assert await store.migrate() == []
    assert (await enqueued(store, when_busy=WhenBusy.SKIP, resource="a")) in await claimed_ids(
        store
    )
    await store.close()
    server.remove()


async def test_a_stream_without_an_audit_log_is_brought_up_to_date() -> None:
    """Schema 4 had no audit log. Its jobs stay, and changes are recorded from then on."""
    server = Server().start()
    old = NatsStore(server.url)
    await old.open()
    config = {
        **schema.stream_config(old._subjects, 1),
        "subjects": old._subjects.stored_in(schema.UNAUDITED_SCHEMA),
        "metadata": {"mita": schema.UNAUDITED_SCHEMA},
    }
    stream = old._subjects.stream
    assert "error" not in await old.context.wire.api(f"STREAM.DELETE.{stream}")
    assert "error" not in await old.context.wire.api(f"STREAM.CREATE.{stream}", config)
    id = await enqueued(old)
    await old.close()
    store = NatsStore(server.url)
    with pytest.raises(UsageError, match="mita migrate"):
        await store.open(create=False)
    await store.open()
    await store.record_audit([AuditEntry(id=id, who="a", via="api", what="pause", target="q")])
    assert [one.id for one in await store.audit_page(None, 10, None, None, None)] == [id]
    assert await claimed_ids(store) == [id]
    await store.close()
    server.remove()
