"""Checks whether a server is fit to keep jobs."""

from typing import Any

from mita.errors import StoreError
from mita.model.gate import StoredLimit
from mita.model.view import Finding, Health
from mita.ports.clock import SystemClock
from mita.rules.readable import is_lost, is_unreadable
from mita.stores.shared.aside import finding
from mita.stores.shared.limits import limits_finding
from mita.stores.shared.views import QueueKey, as_name, as_worker

from .client.pipelined_socket import LONGEST_CALL_BYTES
from .codec import as_job, as_limit, as_repeat
from .connection import RedisConnection
from .context import RedisContext, parts

OLDEST_VERSION = (6, 2)
KEEPS_EVERYTHING = "noeviction"
LONGEST_CALL_SETTING = "proto-max-bulk-len"
CLOCK_OFFSET_MS = 1000  # a larger difference between the clocks is a warning


async def server_info(connection: RedisConnection) -> dict[str, str]:
    """The sections of INFO that we look at. On a cluster one node answers."""
    found: dict[str, str] = {}
    for section in ("server", "memory", "persistence", "replication"):
        found.update(_parsed_info(await connection.command_once("INFO", section)))
    return found


def _parsed_info(answer: Any) -> dict[str, str]:
    if isinstance(answer, dict):  # redis-py has parsed it already
        return {str(name): str(value) for name, value in answer.items()}
    text = answer.decode() if isinstance(answer, bytes) else str(answer)
    return dict(line.partition(":")[::2] for line in text.splitlines() if ":" in line)


async def _setting(connection: RedisConnection, name: str) -> str:
    """A setting of the server; '' if it does not show it, as hosted servers do."""
    try:
        answer = await connection.command_once("CONFIG", "GET", name)
    except StoreError:
        return ""
    values = list(answer.values()) if isinstance(answer, dict) else answer[1::2]
    value = values[0] if values else ""
    return value.decode() if isinstance(value, bytes) else str(value)


async def longest_call(connection: RedisConnection) -> int:
    """The most bytes that one part of a call may have."""
    found = await _setting(connection, LONGEST_CALL_SETTING)
    return int(found) if found else LONGEST_CALL_BYTES


def check(info: dict[str, str], where: str, *, allow_eviction: bool) -> None:
    """Raise `StoreError` for a server that would lose jobs or cannot run the scripts."""
    if _version(info) < OLDEST_VERSION:
        raise StoreError(
            f"{where}: this is Redis {info.get('redis_version')}, and Mita needs 6.2 or later",
            transient=False,
        )
    if info.get("role") == "slave":
        raise StoreError(
            f"{where}: this is a read-only replica: use the address of its primary", transient=False
        )
    policy = info.get("maxmemory_policy", KEEPS_EVERYTHING)
    if policy != KEEPS_EVERYTHING and not allow_eviction:
        raise StoreError(
            f"{where}: maxmemory-policy is {policy}, so the server deletes jobs when its memory is "
            "full. Set it to noeviction, or add ?allow_eviction=1 to the URL if losing jobs is "
            "acceptable",
            transient=False,
        )


def _version(info: dict[str, str]) -> tuple[int, ...]:
    numbers = info.get("redis_version", "0").split(".")[:2]
    return tuple(int(number) for number in numbers if number.isdigit())


async def doctor(context: RedisContext) -> list[Finding]:
    """Findings about the server, its settings, the clocks and the stored records."""
    info = await server_info(context.connection)
    memory = f"{info.get('used_memory_human')} used of {_memory_limit(info)}"
    return [
        Finding("engine", _engine(info)),
        await _durability(context, info),
        _eviction(info),
        Finding("memory", memory),
        Finding("namespace", context.keys.namespace),
        await _clock(context),
        await _limits(context),
        await _records(context),
    ]


def _engine(info: dict[str, str]) -> str:
    """Valkey reports two versions: its own, and that of the Redis it is compatible with."""
    name = info.get("server_name", "redis")
    version = info.get(f"{name}_version", info.get("redis_version"))
    return f"{name} {version} ({info.get('server_mode', info.get('redis_mode'))})"


def _memory_limit(info: dict[str, str]) -> str:
    return info.get("maxmemory_human", "?") if info.get("maxmemory", "0") != "0" else "no limit"


async def _durability(context: RedisContext, info: dict[str, str]) -> Finding:
    if info.get("aof_enabled") != "1":
        text = "no append-only file: an acknowledged job can be lost when the server dies"
        remedy = "set appendonly yes in the server's configuration"
        return Finding("durability", text, Health.WARN, remedy)
    how = await _setting(context.connection, "appendfsync")
    if how == "always":
        text = "append-only file, synced before every answer: acknowledged means on disk"
        return Finding("durability", text)
    text = f"append-only file, appendfsync {how or 'unknown'}: survives the server's death"
    more = "; a power cut can cost the last second" if how == "everysec" else ""
    return Finding("durability", text + more)


def _eviction(info: dict[str, str]) -> Finding:
    policy = info.get("maxmemory_policy", KEEPS_EVERYTHING)
    if policy == KEEPS_EVERYTHING:
        return Finding("eviction", "noeviction: a full server refuses jobs and loses none")
    text = f"{policy}: a full server deletes jobs"
    return Finding("eviction", text, Health.BAD, "CONFIG SET maxmemory-policy noeviction")


async def _clock(context: RedisContext) -> Finding:
    mine = SystemClock()
    before = mine.now()
    theirs = await context.read_clock()
    offset = (before + mine.now()) // 2 - theirs
    if abs(offset) > CLOCK_OFFSET_MS:
        text = f"this machine is {offset} ms off the server's clock"
        remedy = "harmless to Mita, which uses the server's clock; check NTP anyway"
        return Finding("clock", text, Health.WARN, remedy)
    return Finding("clock", f"this machine is {offset} ms off the server's, whose clock decides")


async def _records(context: RedisContext) -> Finding:
    """Reads every job, repeat and worker that is stored."""
    ids: list[str] = []
    for queue in await context.queues():
        found = await context.connection.command("HKEYS", f"{context.keys.queue(queue)}:jobs")
        for part in parts([id for id in found if id]):
            rows = await context.in_queue("find", queue, *part)
            for id, row in zip(part, rows, strict=True):
                if row is not None and is_unreadable(as_job(row, queue, as_name(id))):
                    ids.append(as_name(id))
    return finding(sorted(ids), [*await _bad_repeats(context), *await _bad_workers(context)])


async def _limits(context: RedisContext) -> Finding:
    """The limits that operators have set."""
    queues: dict[str, StoredLimit] = {}
    keys: dict[QueueKey, StoredLimit] = {}
    unreadable: list[str] = []
    for queue in await context.queues():
        root = context.keys.queue(queue)
        packed = await context.connection.command("HGET", f"{root}:meta", "limit")
        if (limit := as_limit(packed)) is not None:
            queues[queue] = limit
        elif packed is not None:
            unreadable.append(f"queue {queue}")
        for key, of_key in await _hash(context, f"{root}:limits"):
            if (limit := as_limit(of_key)) is not None:
                keys[queue, as_name(key)] = limit
            else:
                unreadable.append(f"key {as_name(key)} of {queue}")
    return limits_finding(queues, keys, unreadable)


async def _hash(context: RedisContext, key: str) -> list[tuple[bytes, bytes]]:
    found = await context.connection.command("HGETALL", key)
    if isinstance(found, dict):
        return list(found.items())
    return list(zip(found[::2], found[1::2], strict=True))


async def _bad_repeats(context: RedisContext) -> list[str]:
    stored = await _hash(context, context.keys.in_namespace("repeats"))
    repeats = [as_repeat([key, b"", packed]) for key, packed in stored]
    return [f"repeat {repeat.key}" for repeat in repeats if is_lost(repeat)]


async def _bad_workers(context: RedisContext) -> list[str]:
    found = await _hash(context, context.keys.in_namespace("workers"))
    return [f"worker {as_name(id)}" for id, packed in found if as_worker(packed) is None]
