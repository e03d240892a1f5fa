"""The history of runs in Redis: the server deletes it, and what cannot be read is left out."""

import msgspec

from mita.model.history import HOURS_KEPT_MS, MINUTES_KEPT_MS, RunCounts
from mita.model.time import HOUR, MINUTE
from mita.stores.redis import RedisStore

from .servers import bundled, fresh_namespace, shared

COUNTS = RunCounts(queue="q", task="t", succeeded=1)


async def test_the_server_deletes_minutes_and_hours_when_their_time_is_over() -> None:
    store = RedisStore(shared(bundled()).url, namespace=fresh_namespace())
    await store.open()
    await store.count_runs([COUNTS])
    command = store.context.connection.command
    kept = {"history_minutes": (MINUTE, MINUTES_KEPT_MS), "history_hours": (HOUR, HOURS_KEPT_MS)}
    for name, (span, keep) in kept.items():
        pattern = f"{store.context.keys.in_namespace(name)}:*"
        [key] = await command("KEYS", pattern)
        assert keep + span < await command("PTTL", key) <= keep + 2 * span
    await store.close()


async def test_a_field_that_cannot_be_read_is_left_out_and_written_anew() -> None:
    store = RedisStore(shared(bundled()).url, namespace=fresh_namespace())
    await store.open()
    await store.count_runs([COUNTS])
    command = store.context.connection.command
    for name in ("history_minutes", "history_hours"):
        [key] = await command("KEYS", f"{store.context.keys.in_namespace(name)}:*")
        await command("HSET", key, msgspec.msgpack.encode(["q", "t"]), b"\xc1")
        await command("HSET", key, b"\xc1", msgspec.msgpack.encode([1] * 7))
        await command("HSET", key, msgspec.msgpack.encode(["q", "u"]), b"\x91\x01")
    assert await store.run_history(0, hourly=False, queue=None, task=None) == []
    await store.count_runs([COUNTS])
    found = await store.run_history(0, hourly=False, queue=None, task=None)
    assert [(one.task, one.succeeded) for one in found][-1:] == [("t", 1)]
    await store.close()
