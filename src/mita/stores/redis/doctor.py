"""Is this server fit to keep jobs?"""

from typing import Any

from mita.errors import StoreError
from mita.model.view import Finding, Health
from mita.ports.clock import SystemClock

from .context import Room
from .link import Link
from .wire import MOST_BYTES

OLDEST = (6, 2)
KEEPS_EVERYTHING = "noeviction"
BULK = "proto-max-bulk-len"


async def info(link: Link) -> dict[str, str]:
    """Everything INFO says, as far as we look at it. On a cluster it is one node that answers."""
    found: dict[str, str] = {}
    for section in ("server", "memory", "persistence", "replication"):
        found.update(_read(await link.once("INFO", section)))
    return found


async def largest(link: Link) -> int:
    """How many bytes a part of a call may have. A server that does not tell its settings is taken
    to have the usual ones."""
    try:
        answer = await link.once("CONFIG", "GET", BULK)
    except StoreError:
        return MOST_BYTES
    told = (
        answer.get(BULK)
        if isinstance(answer, dict)
        else dict(zip(answer[::2], answer[1::2], strict=True)).get(BULK.encode())
    )
    return int(told) if told else MOST_BYTES


def _read(answer: Any) -> dict[str, str]:
    if isinstance(answer, dict):  # redis-py has read it already
        return {str(name): str(value) for name, value in answer.items()}
    text = answer.decode() if isinstance(answer, bytes) else str(answer)
    lines = (line.partition(":")[::2] for line in text.splitlines() if ":" in line)
    return dict(lines)


def check(said: dict[str, str], where: str, *, allow_eviction: bool) -> None:
    """Refuse what would lose jobs or cannot run the scripts, before the first job is taken."""
    version = _version(said)
    if version < OLDEST:
        raise StoreError(
            f"{where}: this is Redis {said.get('redis_version')}, and Mita needs 6.2 or later",
            transient=False,
        )
    if said.get("role") == "slave":
        raise StoreError(
            f"{where}: this is a read-only replica: use the address of its primary", transient=False
        )
    policy = said.get("maxmemory_policy", KEEPS_EVERYTHING)
    if policy != KEEPS_EVERYTHING and not allow_eviction:
        raise StoreError(
            f"{where}: maxmemory-policy is {policy}, so the server throws jobs away when it is "
            "full. "
            "Set it to noeviction, or say ?allow_eviction=1 if losing jobs is acceptable",
            transient=False,
        )


def _version(said: dict[str, str]) -> tuple[int, ...]:
    return tuple(
        int(part) for part in said.get("redis_version", "0").split(".")[:2] if part.isdigit()
    )


async def doctor(room: Room, namespace: str) -> list[Finding]:
    said = await info(room.link)
    return [
        Finding("engine", _engine(said)),
        await _durability(room, said),
        _eviction(said),
        Finding("memory", f"{said.get('used_memory_human')} used of {_limit(said)}"),
        Finding("namespace", namespace),
        await _offset(room),
    ]


def _engine(said: dict[str, str]) -> str:
    """Valkey says two versions: its own, and that of the Redis it stands in for."""
    name = said.get("server_name", "redis")
    version = said.get(f"{name}_version", said.get("redis_version"))
    return f"{name} {version} ({said.get('server_mode', said.get('redis_mode'))})"


def _limit(said: dict[str, str]) -> str:
    return said.get("maxmemory_human", "?") if said.get("maxmemory", "0") != "0" else "no limit"


async def _durability(room: Room, said: dict[str, str]) -> Finding:
    if said.get("aof_enabled") != "1":
        found = "no append-only file: an acknowledged job can be lost when the server dies"
        return Finding(
            "durability", found, Health.WARN, "set appendonly yes in the server's configuration"
        )
    how = await _appendfsync(room)
    if how == "always":
        return Finding(
            "durability", "append-only file, synced before every answer: acknowledged means on disk"
        )
    found = f"append-only file, appendfsync {how or 'unknown'}: survives the server's death"
    return Finding(
        "durability",
        f"{found}; a power cut can cost the last second" if how == "everysec" else found,
    )


async def _appendfsync(room: Room) -> str:
    try:
        answer = await room.link.once("CONFIG", "GET", "appendfsync")
    except StoreError:  # hosted servers keep CONFIG to themselves
        return ""
    value = next(iter(answer.values())) if isinstance(answer, dict) else answer[1]
    return value.decode() if isinstance(value, bytes) else str(value)


def _eviction(said: dict[str, str]) -> Finding:
    policy = said.get("maxmemory_policy", KEEPS_EVERYTHING)
    if policy == KEEPS_EVERYTHING:
        return Finding("eviction", "noeviction: a full server refuses jobs and loses none")
    found = f"{policy}: a full server throws jobs away"
    return Finding("eviction", found, Health.BAD, "CONFIG SET maxmemory-policy noeviction")


async def _offset(room: Room) -> Finding:
    mine = SystemClock()
    before = mine.now()
    theirs = await room.moment()
    offset = (before + mine.now()) // 2 - theirs
    if abs(offset) > 1000:
        found = f"this machine is {offset} ms off the server's clock"
        return Finding(
            "clock",
            found,
            Health.WARN,
            "harmless to Mita, which goes by the server's; check NTP all the same",
        )
    return Finding("clock", f"this machine is {offset} ms off the server's, whose clock decides")
