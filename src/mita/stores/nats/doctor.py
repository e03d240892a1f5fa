"""What is in order on this server, and what is not."""

from typing import Any

from mita.model.gate import StoredLimit
from mita.model.view import Finding, Health
from mita.rules.display import times
from mita.stores.shared.aside import finding
from mita.stores.shared.limits import limits_finding

from .context import NatsContext
from .stream.decode import (
    SMALL_RECORDS,
    can_be_read,
    decode_job,
    decode_resource_key,
    is_unreadable,
)
from .stream.queue_use import queue_use
from .stream.schema import ADVISED_SERVERS, version_number
from .stream.subjects import RecordKind, name
from .stream.transaction import StreamTransaction

CLOCK_DRIFT_S = 1.0  # between the server's clock and ours; more is a warning
LAG_TICKETS = 10_000  # more ready jobs are a warning


async def doctor(context: NatsContext) -> list[Finding]:
    """Check the server, its version, durability, size and clock, and read every record."""
    await context.clock.refresh()
    info = await context.wire.api(f"STREAM.INFO.{context.subjects.stream}")
    return [
        _version(context.wire.version),
        _replicas(info, context.replicas),
        _durability(info),
        _size(info),
        await _lag(context),
        _clock(context.clock.ahead_of_ours_s()),
        await _limits(context),
        await _records(context),
    ]


def _version(version: str) -> Finding:
    parts = version_number(version)
    if parts >= (2, 14, 3) or (2, 12, 12) <= parts < (2, 13):
        return Finding("server", f"NATS {version}")
    return Finding(
        "server",
        f"NATS {version} has known bugs with schedules in batches",
        Health.WARN,
        f"upgrade to {ADVISED_SERVERS}",
    )


def _replicas(info: dict[str, Any], asked: int) -> Finding:
    has = info["config"]["num_replicas"]
    cluster = info.get("cluster", {})
    behind = [
        peer["name"]
        for peer in cluster.get("replicas", ())
        if peer.get("offline") or not peer.get("current")
    ]
    if behind:
        found = f"{has}, of which {', '.join(behind)} is unreachable or behind"
        return Finding("replicas", found, Health.WARN, "start that server again")
    if has != asked:
        return Finding(
            "replicas",
            f"{has}, but the URL asks for {asked}",
            Health.WARN,
            "restart with the right ?replicas=",
        )
    if has == 1:
        return Finding(
            "replicas",
            "1: the jobs are on one server",
            remedy="?replicas=3 on a cluster survives the loss of one",
        )
    return Finding("replicas", f"{has}, leader {cluster.get('leader', 'unknown')}")


def _durability(info: dict[str, Any]) -> Finding:
    """The server reports its `sync_interval` to its system account only, so it is unknown here."""
    if info["config"]["storage"] != "file":
        return Finding(
            "durability",
            "memory: the jobs are lost when the server stops",
            Health.BAD,
            "recreate the stream with file storage",
        )
    if info["config"]["num_replicas"] > 1:
        return Finding(
            "durability",
            "acknowledged when most replicas have it, before it is on their disks (sync_interval)",
        )
    return Finding(
        "durability",
        "acknowledged before it is on disk: NATS syncs every two minutes unless its "
        "sync_interval is set (which Mita cannot see)",
        Health.WARN,
        "set `jetstream { sync_interval: always }` (about ten times slower), or use 3 replicas",
    )


def _size(info: dict[str, Any]) -> Finding:
    state = info["state"]
    return Finding(
        "stream",
        f"{info['config']['name']}: {times(state['messages'], 'message')}, "
        f"{state['bytes'] / 1e6:.1f} MB",
    )


async def _lag(context: NatsContext) -> Finding:
    """Counts ready tickets, and tickets that were delivered to workers but not claimed yet."""
    waiting, delivered = 0, 0
    answer = await context.wire.api(f"CONSUMER.LIST.{context.subjects.stream}", {"offset": 0})
    for consumer in answer.get("consumers") or ():
        waiting += consumer.get("num_pending", 0)
        delivered += consumer.get("num_ack_pending", 0)
    found = f"{waiting} ready, {delivered} delivered and not claimed yet"
    if waiting > LAG_TICKETS:
        return Finding(
            "consumer lag", found, Health.WARN, "start more workers, or raise their concurrency"
        )
    return Finding("consumer lag", found)


def _clock(ahead: float) -> Finding:
    found = (
        f"the server's is {abs(ahead) * 1000:.0f} ms "
        f"{'ahead of' if ahead >= 0 else 'behind'} this machine's"
    )
    if abs(ahead) > CLOCK_DRIFT_S:
        return Finding("clock", found, Health.WARN, "synchronise the clocks; the server's decides")
    return Finding("clock", found)


async def _limits(context: NatsContext) -> Finding:
    """The limits that operators have set."""
    reader, subjects = context.reader, context.subjects
    queues: dict[str, StoredLimit] = {}
    unreadable: list[str] = []
    for message in await reader.all(subjects.all(RecordKind.QUEUE_USE)):
        queue = name(message.subject.rsplit(".", 1)[1])
        use = await queue_use(StreamTransaction(context), queue) if message.body else None
        if use is not None:
            queues[queue] = use.limit
        elif message.body:
            unreadable.append(f"queue {queue}")
    found = [
        decode_resource_key(message.body, message.subject)
        for message in await reader.all(subjects.all(RecordKind.RESOURCE_KEY))
        if message.body
    ]
    keys = {(key.queue, key.key): key.limit for key in found if key and key.limit is not None}
    return limits_finding(queues, keys, unreadable)


async def _records(context: NatsContext) -> Finding:
    """Reads every record."""
    ids: set[str] = set()
    async for found in context.reader.scan(context.subjects.jobs()):
        for message in found:
            if message.body and is_unreadable(decode_job(message.body, message.subject)):
                ids.add(name(message.subject.rsplit(".", 1)[1]))
    others = [
        f"message {message.subject}"
        for kind in SMALL_RECORDS
        for message in await context.reader.all(context.subjects.all(kind))
        if message.body and not can_be_read(kind, message.body)
    ]
    return finding(sorted(ids), others)
