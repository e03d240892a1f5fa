"""The stream and its consumers: made, and checked that the server understood what was asked of it.

An older server drops settings it does not know without a word, and would then keep schedules as
ordinary messages that never fire. So the configuration is compared as the server echoes it, and a
server that is too old is refused."""

import asyncio
from typing import Any

from mita.errors import StoreError, StoreMissing, UsageError
from mita.model.time import Moment
from mita.stores.shared.words import namespaces

from .client.wire import PATIENCE, Wire
from .clock import as_stamp
from .context import Context
from .errors import refused
from .messages import Out
from .subjects import PREFIX, ROOT, Subjects

OLDEST = (2, 12, 1)
ADVISED = "2.12.12, or 2.14.3 and later"
SCHEMA = "3"
# the schema before: the server removed what was replaced by a limit of one message per subject
LIMITED = "2"
# seconds; a ticket is in a worker's hands for milliseconds, so one that takes longer lost its
# worker
ACK_WAIT = 5
NO_STREAM = 10059  # the server's number for: there is no such stream
NOT_FOUND = 10014  # the server's number for: there is no such consumer
NEEDED = ("allow_msg_schedules", "allow_msg_ttl", "allow_atomic", "allow_direct")


def stream(subjects: Subjects, replicas: int) -> dict[str, Any]:
    """No age limit, no limits of size or number, nothing is ever refused for being new. That there
    is one message for each subject is the work of whoever writes (`homes.fenced` says why)."""
    return {
        "name": subjects.stream,
        "description": "Mita jobs: managed by Mita, not to be edited by hand",
        "subjects": subjects.stored,
        "retention": "workqueue",
        "storage": "file",
        "num_replicas": replicas,
        "discard": "old",
        "max_msgs_per_subject": -1,
        "allow_msg_schedules": True,
        "allow_msg_ttl": True,
        "allow_atomic": True,
        "allow_direct": True,
        "allow_rollup_hdrs": True,
        # Rings for whatever becomes ready, also for what the server itself moves there when its
        # time has come.
        "republish": {
            "src": f"{subjects.root}.j.r.>",
            "dest": f"{subjects.bell}.>",
            "headers_only": True,
        },
        "metadata": {"mita": SCHEMA},
    }


def too_old(version: str) -> StoreError:
    return StoreError(
        f"NATS server {version} is too old: it would ignore message schedules without a word. "
        f"Mita needs {'.'.join(map(str, OLDEST))} at the least ({ADVISED} is advised)"
    )


def number(version: str) -> tuple[int, ...]:
    parts = version.split("-")[0].split(".")
    return tuple(int(part) for part in parts if part.isdigit())


async def _config(wire: Wire, subjects: Subjects) -> dict[str, Any] | None:
    """The stream's configuration, as the server has it. None: there is no such stream."""
    if number(wire.version) < OLDEST:
        raise too_old(wire.version)
    info = await wire.api(f"STREAM.INFO.{subjects.stream}")
    error = info.get("error", {})
    if error and error.get("err_code") != NO_STREAM:
        raise refused(error.get("err_code", 0), error.get("description", ""))
    config: dict[str, Any] | None = None if error else info["config"]
    return config


async def look(wire: Wire, subjects: Subjects, where: str) -> None:
    """That the stream is there and as we need it; nothing is changed."""
    config = await _config(wire, subjects)
    if config is None:
        names = (await wire.api("STREAM.NAMES", {"subject": f"{ROOT}.>"})).get("streams") or []
        there = sorted(name.removeprefix(PREFIX) for name in names if name.startswith(PREFIX))
        raise StoreMissing(
            f"{where} has no Mita in namespace {subjects.namespace!r}{namespaces(there)}"
        )
    _check(config, subjects, wire.version)
    if config["metadata"]["mita"] != SCHEMA:
        raise UsageError(
            f"the stream {subjects.stream!r} is of an older Mita: run `mita migrate`, or start a "
            "worker"
        )


async def ensure(wire: Wire, subjects: Subjects, replicas: int) -> list[str]:
    """That the stream is there and as we need it; what had to be done."""
    version = wire.version
    config = await _config(wire, subjects)
    if config is not None:
        return await _adopt(wire, subjects, replicas, config, version)
    made = await wire.api(f"STREAM.CREATE.{subjects.stream}", stream(subjects, replicas))
    if problem := made.get("error"):
        raise refused(problem.get("err_code", 0), problem.get("description", ""))
    _check(made["config"], subjects, version)
    await wire.store([Out(subjects.anchor, b"", b"Nats-Expected-Last-Subject-Sequence: 0\r\n")])
    return ["stream"]


async def _adopt(
    wire: Wire, subjects: Subjects, replicas: int, config: dict[str, Any], version: str
) -> list[str]:
    _check(config, subjects, version)
    await wire.store([Out(subjects.anchor, b"", b"Nats-Expected-Last-Subject-Sequence: 0\r\n")])
    done = []
    if config["metadata"]["mita"] == LIMITED:
        config = {
            **config,
            "max_msgs_per_subject": -1,
            "metadata": {**config["metadata"], "mita": SCHEMA},
        }
        done.append(f"schema {SCHEMA}")
    if config.get("num_replicas") != replicas:
        config = {**config, "num_replicas": replicas}
        done.append(f"replicas {replicas}")
    if done:
        changed = await wire.api(f"STREAM.UPDATE.{subjects.stream}", config)
        if problem := changed.get("error"):
            raise refused(problem.get("err_code", 0), problem.get("description", ""))
    return done


def _check(config: dict[str, Any], subjects: Subjects, version: str) -> None:
    mark = config.get("metadata", {}).get("mita")
    ours = mark is not None and set(config.get("subjects", ())) == set(subjects.stored)
    missing = [name for name in NEEDED if not config.get(name)]
    if missing and (ours or mark is None) and config.get("description", "").startswith("Mita jobs"):
        raise too_old(version)
    if not ours:
        raise UsageError(
            f"the stream {subjects.stream!r} on this server is not Mita's: choose another "
            "?namespace=, or remove the stream"
        )
    if mark not in (LIMITED, SCHEMA):
        raise UsageError(
            f"the stream {subjects.stream!r} has schema {mark}, and this Mita knows {SCHEMA}: "
            "upgrade Mita everywhere"
        )
    limited = config.get("max_msgs_per_subject", -1) > 0 and mark == SCHEMA
    if missing or limited or config.get("retention") != "workqueue":
        raise StoreError(
            f"the stream {subjects.stream!r} was changed by hand: "
            f"{', '.join(missing) or 'its limits'}"
        )


async def ensure_line(wire: Wire, subjects: Subjects, queue: str, priority: int) -> None:
    """The consumer of one priority of a queue. Making it again changes nothing.

    Its own state is of no importance: a ticket that comes twice meets the home record of its job.
    """
    durable = subjects.consumer(queue, priority)
    config = {
        "durable_name": durable,
        "filter_subject": subjects.line(queue, priority),
        "ack_policy": "explicit",
        "ack_wait": ACK_WAIT * 1_000_000_000,
        "max_deliver": -1,
        "max_ack_pending": -1,
        "max_waiting": 2048,
    }
    body = {"stream_name": subjects.stream, "config": config}
    made = await wire.api(f"CONSUMER.DURABLE.CREATE.{subjects.stream}.{durable}", body)
    if problem := made.get("error"):
        raise refused(problem.get("err_code", 0), problem.get("description", ""))


async def stop_line(context: Context, queue: str, priority: int, until: Moment | None) -> None:
    """Have a consumer deliver nothing until then (None: let it go on). On a cluster the API answers
    before the consumer's leader knows of it, so the leader itself is asked."""
    consumer = f"{context.subjects.stream}.{context.subjects.consumer(queue, priority)}"
    body = {} if until is None else {"pause_until": as_stamp(until).decode()}
    answer = await context.wire.api(f"CONSUMER.PAUSE.{consumer}", body)
    deadline = asyncio.get_running_loop().time() + PATIENCE
    while not (problem := answer.get("error", {})):
        answer = await context.wire.api(f"CONSUMER.INFO.{consumer}")
        if "error" not in answer and bool(answer.get("paused")) is (until is not None):
            return
        if asyncio.get_running_loop().time() > deadline:
            raise StoreError(
                f"the consumer of queue {queue!r} was not stopped in {PATIENCE:g} s", transient=True
            )
        await asyncio.sleep(0.005)
    if problem.get("err_code") != NOT_FOUND:
        raise refused(problem.get("err_code", 0), problem.get("description", ""))


async def restore_line(wire: Wire, subjects: Subjects, queue: str, priority: int) -> None:
    """Nobody answers for this line. If its consumer was removed by somebody, make it again."""
    found = await wire.api(f"CONSUMER.INFO.{subjects.stream}.{subjects.consumer(queue, priority)}")
    if found.get("error", {}).get("err_code") == NOT_FOUND:
        await ensure_line(wire, subjects, queue, priority)


async def has_line(wire: Wire, subjects: Subjects, queue: str, priority: int) -> bool:
    """Whether there is a consumer of this priority of a queue."""
    found = await wire.api(f"CONSUMER.INFO.{subjects.stream}.{subjects.consumer(queue, priority)}")
    return "error" not in found
