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


# What decides beside the fields of a plain claim whether and when its job starts.
_DECIDES = ("gates", "seq", "most", "when_busy")
_PLAIN_CLAIMED = claim_values("c", "c.now")[:_PLAIN_FIELDS]
_HAS_KEYS = "c.resource is not null or c.gates is not null"


def _shown_row(row: str, now: str, has_keys: str) -> list[str]:
    """The columns of `ShownRow`, as SQL."""
    of_keys = [f"case when {has_keys} then {row}.{name} end" for name in ("most", "when_busy")]
    fields = claim_values(row, now)[:_PLAIN_FIELDS]
    return ["null", *fields, f"{row}.gates::text", f"{row}.seq", *of_keys]


CLAIM_TEXTS = {
    "claim_columns": ", ".join(f"j.{column(name)}" for name in CLAIM),
    "decided_columns": ", ".join(
        f"j.{name}" for name in dict.fromkeys((*map(column, CLAIM), *_DECIDES))
    ),
    "shown_row_nulls": ", ".join("null" for _ in _shown_row("c", "c.now", "true")[1:]),
    "shown_row": ", ".join(_shown_row("c", "c.now", _HAS_KEYS)[1:]),
    "woken_row": ", ".join(_shown_row("j", "clock.now", "true")),
    "plain_claim_nulls": ", ".join("null" for _ in _PLAIN_CLAIMED),
    "plain_claimed": ", ".join(_PLAIN_CLAIMED),
    "reaped": ", ".join(claim_values("e", lost="e.worker")),
    "started": ", ".join(claim_values("j", token="j.token")),  # noqa: S106
}


class ClaimHeader(msgspec.Struct, frozen=True):
    """What a claim says of all its queues, in its first row: the clock; the next point in time at
    which a job is due or the clock opens a key; the value of the sequence `_behind`; whether
    nothing was taken because of limits; whether jobs of several priorities are due that age;
    whether due jobs were left out because others had locked them; and queues with priorities that
    the process did not know, because of which nothing was taken.

    `claim_facts_keyed` also says when the clock wakes the first job that waits at a rate, and
    whether there are holds, limits or fair groups. `claim_facts_limited` also says when the first
    hold ends; which queues have limits or fair groups; and whether there are holds or ever were
    limits at all."""

    now: int
    next_due: int | None  # not checked: a record that cannot be read must not stop all claims
    behind: int
    waits: bool
    mixed: bool = False
    is_short: bool = False
    strays: list[tuple[str, int]] | None = None
    first_wake: int | None = None
    is_stopped: bool = False
    next_hold: int | None = None
    careful: list[str] | None = None
    is_limited: bool = True

    @property
    def has_due_keys(self) -> bool:
        """Whether the clock may wake jobs that wait at keys."""
        return self.first_wake is not None and self.first_wake <= self.now

    @property
    def has_ended_holds(self) -> bool:
        """Whether holds have ended, and are not removed yet."""
        return self.next_hold is not None and self.next_hold <= self.now


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


_PLAIN_COLUMNS = 1 + _PLAIN_FIELDS  # with the header


class ShownRow:
    """Where to find what in a row of a claim of queues that may have limits, and of `key_show`: the
    header, the fields of a plain claim, and what `_DECIDES` names. A job without keys has no busy
    policy."""

    id, queue, priority, due = (
        1 + _FIELDS.index(name) for name in ("id", "queue", "priority", "due")
    )
    gates, seq, limit, when_busy = range(_PLAIN_COLUMNS, _PLAIN_COLUMNS + len(_DECIDES))


class ShownClaims(NamedTuple):
    """The jobs in some rows as the claims that they would be; those of them that have keys; for
    each of these its id, how many may hold its resource key, and its busy policy; and the rows
    whose gates cannot be read."""

    claims: list[Claim]
    keyed: list[Claim]
    candidates: Rows
    unreadable: list[UnreadableRow]


def shown_claims(rows: Rows) -> ShownClaims:
    """The jobs in rows with the columns of `ShownRow`."""
    shown = ShownClaims([], [], [], [])
    for row in rows:
        if row[ShownRow.when_busy] is None:
            shown.claims.append(Claim(*row[1:_PLAIN_COLUMNS]))
        elif (claim := _claim(row[1 : _PLAIN_COLUMNS + 1], shown.unreadable)) is not None:
            shown.claims.append(claim)
            shown.keyed.append(claim)
            shown.candidates.append((claim.id, row[ShownRow.limit], row[ShownRow.when_busy]))
    return shown


def plain_claims(rows: Iterable[Row]) -> list[Claim]:
    """The claims in these rows of a claim of queues without limits."""
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
