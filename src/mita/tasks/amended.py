"""Other arguments for a job that is stored already."""

from collections.abc import Mapping
from typing import Any

import msgspec
from msgspec import Raw

from mita.errors import UsageError, did_you_mean
from mita.rules.sealed import is_sealed, why_closed

from .pending import packed_value, read_value, refuse_size
from .placeholders import has_results
from .task import Task

_read_raw = msgspec.msgpack.Decoder(dict[str, Raw]).decode
_pack = msgspec.msgpack.Encoder().encode


def amended_payload(task: Task[Any, Any], payload: bytes, changes: Mapping[str, Any]) -> bytes:
    """Return the arguments of a stored job with these changes. What is not named stays as it is,
    results of other steps included. Raises `UsageError` if a change does not fit the task's
    annotations, or if all together do not."""
    where = f"task {task.name!r}"
    if is_sealed(payload):
        raise UsageError(f"{where}: the stored arguments cannot be read: {why_closed(payload)}")
    changed = _pack(_stored(where, payload) | check_changes(task, changes))
    limit = task._payload_limit  # noqa: SLF001
    if len(changed) > limit:
        refuse_size(task.name, dict(changes), len(changed), limit)
    if not has_results(changed):
        task.arguments.unpack(changed)
    return changed


def check_changes(task: Task[Any, Any], changes: Mapping[str, Any]) -> dict[str, Raw]:
    """Return these arguments of a task, packed one by one. Raises `UsageError` for one that the
    task does not have, or that does not fit its annotation."""
    where, parameters = f"task {task.name!r}", task.arguments.parameters
    if not changes:
        raise UsageError(f"{where}: name at least one argument to change")
    packed: dict[str, Raw] = {}
    for name, value in changes.items():
        if name not in parameters:
            meant = did_you_mean(name, parameters) or "."
            raise UsageError(
                f"{where}: it has no parameter {name!r}{meant} It takes "
                f"{', '.join(parameters) or 'no arguments'}"
            )
        at = f"{where}: parameter {name!r}"
        bytes_of_value = packed_value(at, value)
        read_value(at, task.arguments.types[name], bytes_of_value)
        packed[name] = Raw(bytes_of_value)
    return packed


def _stored(where: str, payload: bytes) -> dict[str, Raw]:
    try:
        return _read_raw(payload)
    except (msgspec.MsgspecError, ValueError, RecursionError) as error:
        raise UsageError(f"{where}: the stored arguments cannot be read: {error}") from error
