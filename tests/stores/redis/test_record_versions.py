"""Records that another version of Mita wrote."""

from collections.abc import Callable
from typing import Any

import msgspec
import pytest

from mita.model.job import State
from mita.model.outcome import Answer, PrioritiseJob, Settlement
from mita.model.repeat import Firing, Repeat
from mita.model.time import NOW, When
from mita.rules.readable import is_unreadable
from mita.stores.redis import RedisStore
from mita.stores.redis.scripting.record_layout import (
    CLIENT_FIELDS,
    HEAD_FIELDS,
    LIVE_FIELDS,
    client_defaults,
)

from .load import DONE, LEASE, QUEUE, jobs

Rewrite = Callable[[list[Any]], list[Any]]
HEAD = len(HEAD_FIELDS)


def as_version_0_1(parts: list[Any]) -> list[Any]:
    """One array of 15 values: the client's fields were not in an array of their own."""
    return [*parts[:HEAD], *parts[HEAD][:11]]


def as_newer(parts: list[Any]) -> list[Any]:
    """With so many more fields that MessagePack writes the array with a longer head."""
    known = [*parts[HEAD], *client_defaults()[len(parts[HEAD]) :]]
    return [*parts[:HEAD], [*known, *["unknown"] * 5]]


async def rewrite(store: RedisStore, part: str, change: Rewrite) -> None:
    """Write every record of the queue anew."""
    command, key = store.context.connection.command, f"{store.context.keys.queue(QUEUE)}:{part}"
    for id in filter(None, await command("HKEYS", key)):
        changed = change(msgspec.msgpack.decode(await command("HGET", key, id)))
        await command("HSET", key, id, msgspec.msgpack.encode(changed))


@pytest.mark.parametrize("other", [as_version_0_1, as_newer])
async def test_a_record_of_another_version_is_claimed_shown_and_settled(
    store: RedisStore, other: Rewrite
) -> None:
    """I1 I6 I13: also by the scripts, which read the keys of a job."""
    [keyed] = jobs(1, resource="account", unique="invoice", fire_time=7)
    [blocked] = jobs(1, resource="account")
    [plain] = jobs(1, payload=b"x" * 300, headers=b"h")
    await store.enqueue([keyed, blocked, plain])
    before = await store.find([keyed.id, blocked.id, plain.id])
    await rewrite(store, "jobs", other)
    assert await store.find([keyed.id, blocked.id, plain.id]) == before
    assert await store.amend([plain.id], PrioritiseJob(9)) == [Answer.DONE]
    first, second = (await store.claim([QUEUE], 10, LEASE, "w1")).claims
    assert [first.id, second.id] == [plain.id, keyed.id]
    assert (first.payload, first.headers, first.priority) == (plain.payload, plain.headers, 9)
    assert (second.resource, second.unique, second.fire_time) == ("account", "invoice", 7)
    assert await store.settle([Settlement(first, DONE), Settlement(second, DONE)]) == [True, True]
    [third] = (await store.claim([QUEUE], 10, LEASE, "w1")).claims
    assert third.id == blocked.id, "it was woken when the key became free"


async def test_a_live_part_of_a_newer_version_is_read(store: RedisStore) -> None:
    [job] = jobs(1, when=When(10_000))
    await store.enqueue([job])
    assert await store.amend([job.id], PrioritiseJob(3)) == [Answer.DONE]
    await rewrite(store, "live", lambda parts: [*parts, False, "unknown"])
    [found] = await store.find([job.id])
    assert found is not None
    assert (found.state, found.priority, is_unreadable(found)) == (State.QUEUED, 3, False)
    assert await store.amend([job.id], PrioritiseJob(4)) == [Answer.DONE]


async def test_a_record_that_is_too_short_for_any_version_is_unreadable(store: RedisStore) -> None:
    [job] = jobs(1, when=NOW)
    await store.enqueue([job])
    await rewrite(store, "jobs", lambda parts: [*parts[:HEAD], parts[HEAD][:10]])
    [found] = await store.find([job.id])
    assert found is not None
    assert is_unreadable(found)


def test_the_fields_of_version_0_1_keep_their_positions() -> None:
    """A new field is appended: these positions are in records that exist."""
    assert CLIENT_FIELDS[:11] == (
        *("task", "resource", "limit", "when_busy", "unique", "unique_for", "repeat"),
        *("fire_time", "payload", "options", "headers"),
    )
    assert LIVE_FIELDS[:18] == (
        *("state", "token", "priority", "due"),
        *("attempts", "reschedules", "busy", "interruptions", "crashes"),
        *("worker", "started", "asked", "asked_due", "asked_keep"),
        *("stranded", "finished", "expires", "extras"),
    )


async def test_a_repeat_of_an_older_version_is_read_fired_and_counted(store: RedisStore) -> None:
    """It was written without its failures and without the reason of its pause."""
    repeat = await store.put_repeat(Repeat(key="daily", spec=b"1", cursor=7, reason="why"))
    command, key = store.context.connection.command, store.context.keys.in_namespace("repeats")
    packed = msgspec.msgpack.decode(await command("HGET", key, "daily"))
    await command("HSET", key, "daily", msgspec.msgpack.encode(packed[:6]))
    assert await store.find_repeats(["daily"]) == [repeat]
    firing = Firing(
        key="daily", cursor=7, revision=repeat.revision, next=8, fired=1, last=7, jobs=()
    )
    assert await store.fire([firing]) == [True]
    await command("HSET", key, "daily", msgspec.msgpack.encode(packed[:6]))
    assert await store.report_repeat("daily", True) == 1
    assert await store.pause_repeats(["daily"], "it failed") == [True]
    [paused] = await store.list_repeats()
    assert (paused.cursor, paused.failures, paused.pause_reason) == (7, 1, "it failed")
