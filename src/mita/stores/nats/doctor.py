"""What is well with this server, and what is not."""

from typing import Any

from mita.model.view import Finding, Health

from . import schema
from .context import Context

DRIFT = 1.0  # seconds between the server's clock and ours that are worth a word
LAG = 10_000


async def doctor(context: Context, replicas: int) -> list[Finding]:
    await context.clock.refresh()
    info = await context.wire.api(f"STREAM.INFO.{context.subjects.stream}")
    return [
        _version(context.wire.version),
        _replicas(info, replicas),
        _durability(info),
        _size(info),
        await _lag(context),
        _clock(context.clock.ahead_of_ours()),
    ]


def _version(version: str) -> Finding:
    parts = schema.number(version)
    if parts >= (2, 14, 3) or (2, 12, 12) <= parts < (2, 13):
        return Finding("server", f"NATS {version}")
    return Finding(
        "server",
        f"NATS {version} has known faults with schedules in batches",
        Health.WARN,
        f"upgrade to {schema.ADVISED}",
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
        found = f"{has}, of which {', '.join(behind)} is away or behind"
        return Finding("replicas", found, Health.WARN, "bring that server back")
    if has != asked:
        return Finding(
            "replicas",
            f"{has}, {asked} asked for",
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
    """The server tells its `sync_interval` on its system account only, so most of the time we
    cannot know it."""
    if info["config"]["storage"] != "file":
        return Finding(
            "durability",
            "memory: gone with the server",
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
        "sync_interval says otherwise "
        "(it does not tell us)",
        Health.WARN,
        "set `jetstream { sync_interval: always }` (about ten times slower), or use 3 replicas",
    )


def _size(info: dict[str, Any]) -> Finding:
    state = info["state"]
    return Finding(
        "stream",
        f"{info['config']['name']}: {state['messages']} messages, {state['bytes'] / 1e6:.1f} MB",
    )


async def _lag(context: Context) -> Finding:
    """What waits in the ready lines, and what is in workers' hands without being claimed."""
    waiting, in_hand = 0, 0
    answer = await context.wire.api(f"CONSUMER.LIST.{context.subjects.stream}", {"offset": 0})
    for consumer in answer.get("consumers") or ():
        waiting += consumer.get("num_pending", 0)
        in_hand += consumer.get("num_ack_pending", 0)
    found = f"{waiting} ready, {in_hand} handed out and not claimed yet"
    if waiting > LAG:
        return Finding("consumer lag", found, Health.WARN, "more workers, or a higher concurrency")
    return Finding("consumer lag", found)


def _clock(ahead: float) -> Finding:
    found = (
        f"the server's is {abs(ahead) * 1000:.0f} ms "
        f"{'ahead of' if ahead >= 0 else 'behind'} this machine's"
    )
    if abs(ahead) > DRIFT:
        return Finding("clock", found, Health.WARN, "synchronise the clocks; the server's decides")
    return Finding("clock", found)
