"""The stream: creating it, and checking that the server understood its configuration.

An older server silently drops settings that it does not know, and would then keep schedules as
ordinary messages that never fire. So the configuration is compared as the server returns it, and a
server that is too old is refused."""

from typing import Any

from mita.errors import StoreError, StoreMissing, UsageError
from mita.stores.nats.client.errors import refused
from mita.stores.nats.client.messages import OutMessage
from mita.stores.nats.client.wire import NatsWire
from mita.stores.shared.words import namespaces

from .job_records import EXPECT_SEQ
from .subjects import STREAM_PREFIX, SUBJECT_ROOT, Subjects

OLDEST_SERVER = (2, 12, 1)
ADVISED_SERVERS = "2.12.12, or 2.14.3 and later"
SCHEMA = "5"
# The schema before: there was no audit log.
UNAUDITED_SCHEMA = "4"
# Before that there were neither rates nor limits of queues.
UNLIMITED_SCHEMA = "3"
# The first schema: a limit of one message per subject removed what was replaced.
LIMITED_SCHEMA = "2"
OLDER_SCHEMAS = (LIMITED_SCHEMA, UNLIMITED_SCHEMA, UNAUDITED_SCHEMA)
NO_STREAM_CODE = 10059  # the server's error code: there is no such stream
NEEDED_SETTINGS = ("allow_msg_schedules", "allow_msg_ttl", "allow_atomic", "allow_direct")
DESCRIPTION = "Mita jobs: managed by Mita, not to be edited by hand"


def stream_config(subjects: Subjects, replicas: int) -> dict[str, Any]:
    """Returns the configuration of the stream: no limits of age, size or number. Writers make sure
    that there is one message for each subject (`job_records.fenced` says why)."""
    return {
        "name": subjects.stream,
        "description": DESCRIPTION,
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
        "republish": _republish(subjects),
        "metadata": {"mita": SCHEMA},
    }


def _republish(subjects: Subjects) -> dict[str, Any]:
    """The server notifies of every new ticket, also of its own from schedules."""
    dest = f"{subjects.republished}.>"
    return {"src": subjects.all_tickets(), "dest": dest, "headers_only": True}


def too_old(version: str) -> StoreError:
    """Returns the error for a server that does not know message schedules."""
    return StoreError(
        f"NATS server {version} is too old: it would silently ignore message schedules. "
        f"Mita needs {'.'.join(map(str, OLDEST_SERVER))} or later ({ADVISED_SERVERS} is advised)"
    )


def version_number(version: str) -> tuple[int, ...]:
    """Returns a version such as `2.12.1-beta` as numbers, to be compared."""
    parts = version.split("-")[0].split(".")
    return tuple(int(part) for part in parts if part.isdigit())


async def _config(wire: NatsWire, subjects: Subjects) -> dict[str, Any] | None:
    """Returns the stream's configuration; None if there is no such stream."""
    if version_number(wire.version) < OLDEST_SERVER:
        raise too_old(wire.version)
    info = await wire.api(f"STREAM.INFO.{subjects.stream}")
    error = info.get("error", {})
    if error and error.get("err_code") != NO_STREAM_CODE:
        raise refused(error.get("err_code", 0), error.get("description", ""))
    config: dict[str, Any] | None = None if error else info["config"]
    return config


async def check_stream(wire: NatsWire, subjects: Subjects, where: str) -> None:
    """Check that the stream exists and has the right configuration; change nothing. Raises
    StoreMissing if there is no stream, UsageError if it must be migrated."""
    config = await _config(wire, subjects)
    if config is None:
        listed = await wire.api("STREAM.NAMES", {"subject": f"{SUBJECT_ROOT}.>"})
        names = [name for name in listed.get("streams") or [] if name.startswith(STREAM_PREFIX)]
        there = sorted(name.removeprefix(STREAM_PREFIX) for name in names)
        raise StoreMissing(
            f"{where} has no Mita in namespace {subjects.namespace!r}{namespaces(there)}"
        )
    _check(config, subjects, wire.version)
    if config["metadata"]["mita"] != SCHEMA:
        raise UsageError(
            f"the stream {subjects.stream!r} was made by an older Mita: run `mita migrate`, or "
            "start a worker"
        )


async def ensure_stream(wire: NatsWire, subjects: Subjects, replicas: int) -> list[str]:
    """Create the stream, or bring it up to date. Returns the names of what was done."""
    config = await _config(wire, subjects)
    if config is not None:
        return await _update(wire, subjects, replicas, config)
    made = await wire.api(f"STREAM.CREATE.{subjects.stream}", stream_config(subjects, replicas))
    if problem := made.get("error"):
        raise refused(problem.get("err_code", 0), problem.get("description", ""))
    _check(made["config"], subjects, wire.version)
    await _ensure_anchor(wire, subjects)
    return ["stream"]


async def _ensure_anchor(wire: NatsWire, subjects: Subjects) -> None:
    await wire.store([OutMessage(subjects.anchor, b"", EXPECT_SEQ % 0)])


async def _update(
    wire: NatsWire, subjects: Subjects, replicas: int, config: dict[str, Any]
) -> list[str]:
    _check(config, subjects, wire.version)
    await _ensure_anchor(wire, subjects)
    done = []
    if config["metadata"]["mita"] in OLDER_SCHEMAS:
        metadata = {**config["metadata"], "mita": SCHEMA}
        config = {**config, "max_msgs_per_subject": -1, "metadata": metadata}
        config["subjects"] = subjects.stored
        done.append(f"schema {SCHEMA}")
    if config.get("republish") != _republish(subjects):  # version 0.1 had another subject
        config = {**config, "republish": _republish(subjects)}
        done.append("wake-ups")
    if config.get("num_replicas") != replicas:
        config = {**config, "num_replicas": replicas}
        done.append(f"replicas {replicas}")
    if done:
        changed = await wire.api(f"STREAM.UPDATE.{subjects.stream}", config)
        if problem := changed.get("error"):
            raise refused(problem.get("err_code", 0), problem.get("description", ""))
    return done


def _check(config: dict[str, Any], subjects: Subjects, version: str) -> None:
    schema = config.get("metadata", {}).get("mita")
    stored = subjects.stored_in(schema) if schema in OLDER_SCHEMAS else subjects.stored
    ours = schema is not None and set(config.get("subjects", ())) == set(stored)
    missing = [name for name in NEEDED_SETTINGS if not config.get(name)]
    described = config.get("description", "").startswith("Mita jobs")
    if missing and described and (ours or schema is None):
        raise too_old(version)
    if not ours:
        raise UsageError(
            f"the stream {subjects.stream!r} on this server is not Mita's: choose another "
            "?namespace=, or remove the stream"
        )
    if schema not in (*OLDER_SCHEMAS, SCHEMA):
        raise UsageError(
            f"the stream {subjects.stream!r} has schema {schema}, and this Mita knows {SCHEMA}: "
            "upgrade Mita everywhere"
        )
    limited = config.get("max_msgs_per_subject", -1) > 0 and schema != LIMITED_SCHEMA
    if missing or limited or config.get("retention") != "workqueue":
        raise StoreError(
            f"the stream {subjects.stream!r} was changed by hand: restore "
            f"{', '.join(missing) or 'its limits and its retention'}"
        )
