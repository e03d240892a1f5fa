"""What limits, rates and groups cost and leave behind in Redis, and what stands in their way."""

from collections import Counter
from collections.abc import Awaitable, Callable
from typing import Any

import msgspec
import pytest

from mita.errors import StoreError
from mita.model.gate import Gate, StoredLimit
from mita.model.job import Claim, State
from mita.model.outcome import Answer, DeleteJob, PrioritiseJob, Settlement
from mita.model.time import HOUR
from mita.model.view import Health
from mita.rules.readable import is_unreadable
from mita.stores.redis import RedisStore
from mita.stores.redis.scripting.record_layout import CLIENT_FIELDS, LIVE_FIELDS
from mita.testing.contract.clocks import FakeTicker

from .load import DONE, QUEUE, jobs
from .servers import Server

ROOT = f"mita:{{{QUEUE}}}"
SLOW = (Gate("host", None, HOUR * 1000, 1),)
MANY_KEYS, MANY_WAITERS = 3000, 3000
PLAIN_COMMANDS = 54  # of three jobs, in five scripts


async def claimed(store: RedisStore, limit: int = 100) -> list[Claim]:
    return (await store.claim([QUEUE], limit, HOUR, "w1")).claims


async def run_all(store: RedisStore) -> int:
    ran = 0
    while claims := await claimed(store):
        ran += len(claims)
        assert all(await store.settle([Settlement(claim, DONE) for claim in claims]))
    return ran


async def block_all(store: RedisStore) -> None:
    while (await store.claim([QUEUE], 100, HOUR, "w1")).busy:
        pass


async def commands(server: Server, act: Callable[[], Awaitable[Any]]) -> Counter[str]:
    """The commands that the server runs for this, also those in scripts."""
    with server.client() as client:
        client.config_resetstat()
        await act()
        found: dict[str, Any] = client.info("commandstats")
    ours = ("cmdstat_info", "cmdstat_config")
    return Counter(
        {name: stat["calls"] for name, stat in found.items() if not name.startswith(ours)}
    )


# ---------------------------------------------------------------- what it costs


async def plain_jobs(store: RedisStore) -> None:
    for job in jobs(3, fresh=True):
        await store.enqueue([job])
    claims = await claimed(store)
    turn = await store.settle_and_claim(
        [Settlement(claim, DONE) for claim in claims], [QUEUE], 10, HOUR, "w1"
    )
    assert (len(claims), turn.claims) == (3, [])


async def test_plain_jobs_need_no_command_more(server: Server, own_store: RedisStore) -> None:
    """The commands of three plain jobs, enqueued alone, claimed and settled together: as many as
    before there were limits."""
    await plain_jobs(own_store)
    found = await commands(server, lambda: plain_jobs(own_store))
    assert sum(found.values()) - found["cmdstat_evalsha"] - found["cmdstat_time"] == PLAIN_COMMANDS


async def test_a_hot_rate_does_not_slow_the_claims_of_other_jobs(
    server: Server, own_store: RedisStore
) -> None:
    """A claim does not look at the jobs that wait at a rate, however many there are."""
    await own_store.enqueue(jobs(3, gates=SLOW))
    await block_all(own_store)
    few = await commands(server, lambda: plain_jobs(own_store))
    for _ in range(MANY_WAITERS // 500):
        await own_store.enqueue(jobs(500, gates=SLOW))
    await block_all(own_store)
    [view] = await own_store.queues()
    assert view.blocked == MANY_WAITERS + 2
    assert await commands(server, lambda: plain_jobs(own_store)) == few


async def test_many_rates_are_used_and_forgotten(
    server: Server, own_store: RedisStore, clock: FakeTicker
) -> None:
    """I14: a rate that is full again leaves nothing behind; one that jobs wait for stays."""
    await own_store.enqueue(jobs(1))
    await run_all(own_store)
    with server.client() as client:
        before = client.dbsize()
        each = [jobs(1, gates=(Gate(f"k{n}", None, 1000, 1),))[0] for n in range(MANY_KEYS)]
        await own_store.enqueue(each)
        assert await run_all(own_store) == MANY_KEYS
        assert client.hlen(f"{ROOT}:rates") == MANY_KEYS
        await own_store.enqueue(jobs(2, gates=SLOW))
        [first] = await claimed(own_store)
        await clock.tick(10)
        await own_store.prune(10, 10)
        assert client.hkeys(f"{ROOT}:rates") == [b"host"]
        await own_store.settle([Settlement(first, DONE)])
        await clock.tick(HOUR)
        assert await run_all(own_store) == 1
        await clock.tick(HOUR)
        await own_store.prune(10, 10)
        assert client.dbsize() == before
        assert client.hget(f"{ROOT}:meta", "flow") is None


async def test_groups_leave_only_their_virtual_time(server: Server, own_store: RedisStore) -> None:
    """I14: a group without jobs has no set and no entry."""
    await own_store.enqueue([jobs(1, fair=f"g{n % 50}")[0] for n in range(200)])
    assert await run_all(own_store) == 200
    with server.client() as client:
        names = {bytes(key).decode().removeprefix(f"{ROOT}:") for key in client.keys(f"{ROOT}:*")}
    assert {name for name in names if name.startswith(("group", "turns"))} <= {"turns:5"}


# ---------------------------------------------------------------- what stands in the way


@pytest.mark.parametrize("key", ["rates", "wakes", "limits", "holders:gpu"])
async def test_a_claim_with_a_key_of_another_type_starts_nothing(
    server: Server, own_store: RedisStore, key: str
) -> None:
    await own_store.enqueue(jobs(3, gates=(Gate("gpu", 1), *SLOW)))
    with server.client() as client:
        client.set(f"{ROOT}:{key}", "not ours")
        with pytest.raises(StoreError, match="not ours"):
            await claimed(own_store)
        assert client.llen(f"{ROOT}:ready:5") == 3 or key == "holders:gpu"
        client.delete(f"{ROOT}:{key}")
    assert (await own_store.queues())[0].running == 0


@pytest.mark.parametrize("groups", [["a"], ["a", "b"], ["a", None]])
@pytest.mark.parametrize("key", ["group:5:a", "groups_next:5", "groups_later:5", "turns:5"])
async def test_a_claim_of_groups_with_a_key_of_another_type_starts_nothing(
    server: Server, own_store: RedisStore, groups: list[str | None], key: str
) -> None:
    await own_store.enqueue([jobs(1, fair=groups[n % len(groups)])[0] for n in range(6)])
    with server.client() as client:
        if client.exists(f"{ROOT}:{key}"):
            client.rename(f"{ROOT}:{key}", f"{ROOT}:saved")
        client.set(f"{ROOT}:{key}", "not ours")
        with pytest.raises(StoreError, match="not ours"):
            await claimed(own_store)
        client.delete(f"{ROOT}:{key}")
        if client.exists(f"{ROOT}:saved"):
            client.rename(f"{ROOT}:saved", f"{ROOT}:{key}")
    assert (await own_store.queues())[0].running == 0
    assert await run_all(own_store) == 6


@pytest.mark.parametrize("key", ["group:5:a", "groups_next:5", "turns:5"])
async def test_an_enqueue_with_a_key_of_another_type_writes_nothing(
    server: Server, own_store: RedisStore, key: str
) -> None:
    with server.client() as client:
        client.set(f"{ROOT}:{key}", "not ours")
        before = sorted(client.keys("*"))
        with pytest.raises(StoreError, match="not ours"):
            await own_store.enqueue([*jobs(1), *jobs(1, fair="a")])
        assert sorted(client.keys("*")) == before


def spoiled(parts: list[Any], field: str, value: Any) -> list[Any]:
    client = list(parts[-1])
    client[CLIENT_FIELDS.index(field)] = value
    return [*parts[:-1], client]


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("gates", "explode"),
        ("gates", [["gpu", -1, 0, 1]]),
        ("gates", [[7, 1, 0, 1]]),
        ("gates", [["gpu", 1, 0, 0]]),
        ("gates", None),
        ("fair", 7),
        ("weight", 0),
        ("weight", "heavy"),
    ],
)
async def test_a_job_whose_limits_cannot_be_read_is_set_aside(
    server: Server, own_store: RedisStore, field: str, value: Any
) -> None:
    """I15: other jobs with its keys and its group start."""
    [bad] = jobs(1, gates=(Gate("gpu", 1),), fair="a")
    good = jobs(2, gates=(Gate("gpu", 5),), fair="a")
    await own_store.enqueue([bad, *good])
    with server.client() as client:
        parts = msgspec.msgpack.decode(client.hget(f"{ROOT}:jobs", bad.id) or b"")
        packed = msgspec.msgpack.encode(spoiled(parts, field, value))
        client.hset(f"{ROOT}:jobs", bad.id, packed)
    assert {claim.id for claim in await claimed(own_store)} == {job.id for job in good}
    [found] = await own_store.find([bad.id])
    assert found is not None
    assert is_unreadable(found)
    assert await own_store.amend([bad.id], DeleteJob()) == [Answer.DONE]


async def test_limits_that_cannot_be_read_do_not_hold_and_are_named(
    server: Server, own_store: RedisStore
) -> None:
    """I15: the doctor says which."""
    await own_store.limit([QUEUE], None, StoredLimit(concurrency=0))
    await own_store.limit([QUEUE], "gpu", StoredLimit(concurrency=0))
    await own_store.limit([QUEUE], "api", StoredLimit(2, 1000, 3))
    await own_store.enqueue(jobs(2, resource="gpu", limit=5))
    assert await claimed(own_store) == []
    with server.client() as client:
        client.hset(f"{ROOT}:meta", "limit", b"\xc1")
        client.hset(f"{ROOT}:limits", "gpu", b"garbage")
    assert len(await claimed(own_store)) == 2
    [view] = await own_store.queues()
    assert view.limit is None
    [said] = [finding for finding in await own_store.doctor() if finding.what == "limits"]
    assert said.health is Health.WARN
    for name in (f"queue {QUEUE}", f"key gpu of {QUEUE}", "api"):
        assert name in said.found


async def test_a_lost_mark_is_found_again(server: Server, own_store: RedisStore) -> None:
    """I12 self-heal: `reap` looks whether a queue has limits and groups, if the mark is lost."""
    await own_store.limit([QUEUE], None, StoredLimit(concurrency=1))
    await own_store.enqueue([*jobs(2, fair="a"), *jobs(2, gates=SLOW)])
    with server.client() as client:
        client.hdel(f"{ROOT}:meta", "flow")
    await own_store.reap(10, HOUR, "w2")
    assert len(await claimed(own_store)) == 1


# ---------------------------------------------------------------- older versions


async def test_a_job_that_an_older_version_has_blocked_waits_at_its_resource_key(
    server: Server, own_store: RedisStore
) -> None:
    """A live part of version 0.1 does not say at which key a job waits."""
    first, second = jobs(2, resource="account")
    await own_store.enqueue([first, second])
    [claim] = await claimed(own_store)
    with server.client() as client:
        live = msgspec.msgpack.decode(client.hget(f"{ROOT}:live", second.id) or b"")
        client.hset(
            f"{ROOT}:live",
            second.id,
            msgspec.msgpack.encode(live[: LIVE_FIELDS.index("blocked_at")]),
        )
    [found] = await own_store.find([second.id])
    assert found is not None
    assert (found.state, found.blocked_at) == (State.BLOCKED, "account")
    assert await own_store.amend([second.id], PrioritiseJob(7)) == [Answer.DONE]
    assert await own_store.ahead(second.id) == 0
    await own_store.settle([Settlement(claim, DONE)])
    assert [claim.id for claim in await claimed(own_store)] == [second.id]


async def test_a_limit_holds_for_jobs_that_an_older_version_has_stored(
    server: Server, own_store: RedisStore
) -> None:
    """A record of version 0.1 has its client's fields behind the handle, and eleven of them."""
    await own_store.enqueue(jobs(4, resource="account", limit=4))
    with server.client() as client:
        for id, packed in client.hgetall(f"{ROOT}:jobs").items():
            *head, fields = msgspec.msgpack.decode(packed)
            client.hset(f"{ROOT}:jobs", id, msgspec.msgpack.encode([*head, *fields[:11]]))
    await own_store.limit([QUEUE], "account", StoredLimit(concurrency=2))
    assert len(await claimed(own_store)) == 2
    await own_store.limit([QUEUE], None, StoredLimit(concurrency=3))
    await own_store.limit([QUEUE], "account", None)
    assert len(await claimed(own_store)) == 1


async def test_a_debounce_changes_a_record_of_an_older_version(
    server: Server, own_store: RedisStore
) -> None:
    [old] = jobs(1, unique="doc", payload=b"old", headers=b"h")
    [new] = jobs(1, unique="doc", payload=b"x" * 70_000, options=b"o" * 300, debounce=5)
    await own_store.enqueue([old])
    with server.client() as client:
        *head, fields = msgspec.msgpack.decode(client.hget(f"{ROOT}:jobs", old.id) or b"")
        client.hset(f"{ROOT}:jobs", old.id, msgspec.msgpack.encode([*head, *fields[:11]]))
    [receipt] = await own_store.enqueue([new])
    assert (receipt.id, receipt.created) == (old.id, False)
    [found] = await own_store.find([old.id])
    assert found is not None
    assert (found.payload, found.options, found.headers) == (new.payload, new.options, b"")
