"""Rows and values of statements, to and from the model.

The columns of a job follow from the fields of `NewJob`, `Claim` and `Job` (`stores.shared.record`).
A new field with a default needs a migration that adds its column, and nothing here: numbers, texts
and bytes are stored as they are, and anything else as JSON (`jsonb`)."""

from collections.abc import Iterable
from typing import Any, NamedTuple, TypeAlias

import msgspec
from msgspec.structs import astuple

from mita.model.gate import Gate, StoredLimit
from mita.model.job import NORMAL_WEIGHT_THOUSANDTHS, Claim
from mita.model.outcome import TimelineEntry, TimelineKind
from mita.model.repeat import Repeat
from mita.rules.readable import BAD, read_repeat
from mita.rules.readable import unreadable as unreadable_text
from mita.stores.shared.record import CLAIM
from mita.stores.shared.sql import column

from .server.arrays import storable

Row: TypeAlias = tuple[Any, ...]
Rows: TypeAlias = list[Row]
UnreadableRow: TypeAlias = tuple[str, str]  # the id of a job, and why it cannot be read

# ------------------------------------------------------------------------------------------- claims

_FIELDS = Claim.__struct_fields__
# A plain claim has the defaults of the last fields, which are those of limits.
_PLAIN_FIELDS = _FIELDS.index("gates")
_read_gates = msgspec.json.Decoder(tuple[Gate, ...]).decode
_read_limit = msgspec.json.Decoder(StoredLimit).decode
_read_turns = msgspec.json.Decoder(list[tuple[int, int, Any]]).decode


def claim_values(row: str, now: str = "clock.now", **more: str) -> list[str]:
    """The fields of a `Claim` in their order, as SQL. `row` names a row with the columns
    `{claim_columns}`, `now` is the time, and `more` are fields that are spelled in another way.

    A token is the clock, or one more than the last token if that is later. A claim that was not
    synced to disk can be lost in a crash of the server; then the job is claimed again from its
    state before. With a plain count two runs would have the same token, and each could settle the
    other's job."""
    special = {
        "token": f"greatest({row}.token + 1, {now})",
        "at": now,
        "gates": f"{row}.gates::text",
        "ref": None,
        "lost": None,
    } | more
    values = [special.get(name, f"{row}.{column(name)}") for name in _FIELDS]
    while values[-1] is None:  # these have None as their default
        values.pop()
    return [value or "null" for value in values]


# What decides beside the fields of a claim whether and when its job starts.
_DECIDES = ("seq", "most", "when_busy")
_CLAIMED = claim_values("c", "c.now")
_PLAIN_CLAIMED = _CLAIMED[:_PLAIN_FIELDS]
CLAIM_TEXTS = {
    "claim_columns": ", ".join(f"j.{column(name)}" for name in CLAIM),
    "decided_columns": ", ".join(f"j.{name}" for name in (*map(column, CLAIM), *_DECIDES)),
    "claim_nulls": ", ".join("null" for _ in (*_CLAIMED, *_DECIDES)),
    "claimed": ", ".join([*_CLAIMED, *(f"c.{name}" for name in _DECIDES)]),
    "woken": ", ".join([*claim_values("j"), *(f"j.{name}" for name in _DECIDES)]),
    "plain_claim_nulls": ", ".join("null" for _ in _PLAIN_CLAIMED),
    "plain_claimed": ", ".join(_PLAIN_CLAIMED),
    "reaped": ", ".join(claim_values("e", lost="e.worker")),
    "started": ", ".join(claim_values("j", token="j.token")),  # noqa: S106
}


class ClaimHeader(msgspec.Struct, frozen=True):
    """What `claim.sql` says of all queues, in its first row: the clock; the next point in time at
    which a job is due or the clock opens a key; the value of the sequence `_behind`; whether the
    queues have holds or ever had limits; whether jobs of several priorities are due that age; and
    whether due jobs were left out because others had locked them. Only `claim_limited.sql` says how
    many holds have ended and must be removed; the first keys whose waiting jobs the clock may wake;
    and which queues have limits or fair groups."""

    now: int
    next_due: int | None  # not checked: a record that cannot be read must not stop all claims
    behind: int
    is_limited: bool
    mixed: bool = False
    is_short: bool = False
    ended_holds: int = 0
    due_keys: list[tuple[str, str]] | None = None
    careful: list[str] | None = None


class QueueHeader(msgspec.Struct, frozen=True):
    """What `claim_show.sql` says of a queue, in its first row: the clock; how many jobs of a group
    are shown at most; whether groups take turns; how many jobs run, if the queue has a limit; whose
    turn it is, as (priority, virtual time, that of each group); and when the next job is due
    that is not due yet."""

    now: int
    group_jobs: int
    is_fair: bool
    running: int
    turns: list[tuple[int, int, Any]] | None
    next_due: int | None


class ShownJob(NamedTuple):
    """A due job as `claim_show.sql` shows it. `gates` is JSON, or None if there are none."""

    group: str | None
    priority: int
    due: int
    seq: int
    id: str
    task: str = ""
    weight: int = NORMAL_WEIGHT_THOUSANDTHS
    resource: str | None = None
    limit: int = 1
    when_busy: str = ""
    gates: str | None = None


_SHOWN = {
    "weight": f"coalesce(j.weight, {NORMAL_WEIGHT_THOUSANDTHS}) as weight",
    "gates": "j.gates::text as gates",
}
SHOWN_TEXTS = {
    "shown_columns": ", ".join(
        _SHOWN.get(name, f"j.{column(name)}") for name in ShownJob._fields if name != "group"
    ),
    "shown_nulls": ", ".join("null" for _ in ShownJob._fields),
}

claim_header = msgspec.json.Decoder(ClaimHeader).decode
queue_header = msgspec.json.Decoder(QueueHeader).decode


class ShownClaim(NamedTuple):
    """A job as `claim_limited.sql` and `key_show.sql` show it: the claim that it would be, its age,
    how many may hold its resource key, and its busy policy."""

    claim: Claim
    seq: int
    limit: int
    when_busy: str


def shown_claims(rows: Iterable[Row], first: int) -> tuple[list[ShownClaim], list[UnreadableRow]]:
    """The jobs in these rows, whose columns from `first` on are those of a `ShownClaim`. Also the
    rows whose gates cannot be read."""
    unreadable: list[UnreadableRow] = []
    end = -len(_DECIDES)
    found = [
        ShownClaim(claim, *row[end:])
        for row in rows
        if (claim := _claim(row[first:end], unreadable)) is not None
    ]
    return found, unreadable


def plain_claims(rows: Iterable[Row]) -> list[Claim]:
    """The claims in these rows of `claim.sql`."""
    return [Claim(*row[1:]) for row in rows]


def claims(rows: Iterable[Row]) -> tuple[list[Claim], list[UnreadableRow]]:
    """The claims in these rows, whose columns are the fields of `Claim`. Also the rows whose gates
    cannot be read."""
    unreadable: list[UnreadableRow] = []
    found = [claim for row in rows if (claim := _claim(row, unreadable)) is not None]
    return found, unreadable


def _claim(values: Row, unreadable: list[UnreadableRow]) -> Claim | None:
    try:
        gates = read_gates(values[_PLAIN_FIELDS])
    except BAD as error:
        unreadable.append((values[0], unreadable_reason("gates", error)))
        return None
    return Claim(*(*values[:_PLAIN_FIELDS], gates, *values[_PLAIN_FIELDS + 1 :]))


def turns(found: str) -> list[tuple[int, int, Any]]:
    """Whose turn it is in a queue: priority, virtual time, and that of each group."""
    return _read_turns(found)


def read_gates(found: str | None) -> tuple[Gate, ...]:
    """The gates of a job. Raises one of `BAD` if they cannot be read."""
    return () if found is None else _read_gates(found)


def unreadable_reason(field: str, error: Exception) -> str:
    """The error text of a job whose field cannot be read."""
    return unreadable_text(f"{field}: {error}")


def stored_limit(found: Any) -> StoredLimit | None:
    """A limit that an operator has set. None if there is none, or if it cannot be read: such a
    limit must not stop all claims, and the doctor names it."""
    try:
        return None if found is None else _read_limit(found)
    except BAD:
        return None


# ------------------------------------------------------------------------------------------ repeats


def repeat_values(repeat: Repeat) -> dict[str, Any]:
    """The columns of a repeat."""
    return {
        "key": repeat.key,
        "spec": repeat.spec,
        "cursor": repeat.cursor,
        "state": repeat.state.value,
        "reason": storable(repeat.reason),
        "revision": repeat.revision,
        "count": repeat.count,
        "last": repeat.last,
        "failures": repeat.failures,
        "pause_reason": storable(repeat.pause_reason),
    }


def as_repeat(row: Row) -> Repeat:
    """The repeat in a row, whose columns are the fields of `Repeat` in their order."""
    return read_repeat(dict(zip(Repeat.__struct_fields__, row, strict=True)))


# ----------------------------------------------------------------------------------------- timeline


class _TimelineArray(TimelineEntry, array_like=True, frozen=True):
    """A line of a timeline as it is stored: a JSON array. Only the line of a failed run has the
    last two items."""


_read_line = msgspec.json.Decoder(_TimelineArray).decode


def timeline_entry(line: Any) -> TimelineEntry:
    """The entry in a stored line. A line that cannot be read becomes an entry that says so."""
    try:
        return TimelineEntry(*astuple(_read_line(line)))
    except BAD as error:
        return TimelineEntry(0, TimelineKind.UNREADABLE, f"this line cannot be read: {error}")
