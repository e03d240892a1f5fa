"""The audit log: how long it may get, which entries a filter matches, and what an entry says."""

from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any

import msgspec

from mita.model.audit import AuditEntry
from mita.model.time import DAY, Moment, Wait

from .text import note, writable

AUDIT_ENTRIES = 100_000  # that a store keeps
AUDIT_KEEP: Wait = 400 * DAY
AFTER_ALL = "~"  # sorts after every id
MOST_WHO_CHARACTERS = 200
MOST_DETAILS_BYTES = 4000
_MOST_NAMES = 5  # of tasks or queues in one target

# Arguments of verbs that an entry keeps. What is not named here is not kept: a new argument may
# hold values of jobs.
KEPT_ARGUMENTS = (
    "at",
    "after",
    "until",
    "start",
    "end",
    "priority",
    "concurrency",
    "rate",
    "name",
    "pattern",
    "limit",
)
# Arguments of verbs that hold values of jobs. An error of such a verb may quote them.
SECRET_ARGUMENTS = ("value", "arguments", "call", "calls")


def is_kept(entry: AuditEntry, now: Moment) -> bool:
    """Whether an entry is not too old to be shown. 0 is the time of one that cannot be read."""
    return not entry.at or entry.at > now - AUDIT_KEEP


def matches(entry: AuditEntry, who: str | None, what: str | None, target: str | None) -> bool:
    """Whether an entry is by this person and of this verb, and has this text in its target; None
    means any."""
    return (
        (who is None or entry.who == who)
        and (what is None or entry.what == what)
        and (target is None or target in entry.target)
    )


def reason_of(given: str, reason: object, who: str) -> str:
    """Why a change was made: what the act as a whole was given, else the verb's own reason. The
    command line gives verbs the name of its user as a reason (`by ada on box`), which is none."""
    own = reason if isinstance(reason, str) and not reason.startswith(f"by {who}") else ""
    return note(given or own)


def several(word: str, names: Sequence[str]) -> str:
    """A target of one or more names: `queue mail`, `queues a, b and 7 others`."""
    if not names:
        return f"no {word}"
    shown = list(names[:_MOST_NAMES])
    more = f" and {len(names) - len(shown)} others" if len(names) > len(shown) else ""
    return f"{word}{'' if len(names) == 1 else 's'} {', '.join(shown)}{more}"


def matching_jobs(filters: Mapping[str, Any]) -> str:
    """The target of a bulk operation: `jobs: state=failed queue=mail`."""
    given = {name: value for name, value in filters.items() if value is not None}
    chosen = " ".join(f"{name}={value!s}" for name, value in sorted(given.items()))
    return f"jobs: {chosen or 'all'}"


def kept_details(arguments: Mapping[str, Any]) -> dict[str, Any]:
    """What an entry keeps of the arguments of a verb. Of new arguments of jobs it keeps only the
    names."""
    kept = {
        name: _plain(arguments[name]) for name in KEPT_ARGUMENTS if arguments.get(name) is not None
    }
    changed = arguments.get("arguments")
    if isinstance(changed, Mapping):
        kept["changed"] = sorted(note(name) for name in changed)
    return kept


def within_bounds(entry: AuditEntry) -> AuditEntry:
    """The entry with its texts cut to what the log keeps."""
    details = entry.details
    if len(msgspec.msgpack.encode(details)) > MOST_DETAILS_BYTES:
        details = {"cut": "they were too long"}
    return msgspec.structs.replace(
        entry,
        who=writable(entry.who)[:MOST_WHO_CHARACTERS],
        target=note(entry.target),
        why=note(entry.why),
        result=note(entry.result),
        details=details,
    )


def _plain(value: Any) -> Any:
    """A value that every store can keep."""
    if isinstance(value, datetime):
        return value.isoformat()
    if isinstance(value, timedelta):
        return value.total_seconds()
    if isinstance(value, str):
        return note(value)
    if isinstance(value, bool | int | float):
        return value
    try:
        return msgspec.to_builtins(value, str_keys=True)
    except (TypeError, ValueError):
        return type(value).__name__
