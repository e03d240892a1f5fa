"""Rows and values of statements, to and from the model.

The columns of a job follow from the fields of `NewJob`, `Claim` and `Job` (`stores.shared.record`).
A new field with a default needs a migration that adds its column, and nothing here: numbers, texts
and bytes are stored as they are, and anything else as JSON (`jsonb`)."""

from collections.abc import Callable, Iterable, Sequence
from operator import attrgetter
from typing import Any, TypeAlias, get_type_hints

import msgspec
from msgspec import NODEFAULT, inspect
from msgspec.structs import astuple

from mita.model.job import Claim, NewJob
from mita.model.outcome import TimelineEntry, TimelineKind
from mita.model.repeat import Repeat
from mita.rules.readable import BAD, read_repeat
from mita.stores.shared.record import CLAIM, NEW, Field
from mita.stores.shared.sql import column

from .server.arrays import blobs, jsons, numbers, storable, texts

Row: TypeAlias = tuple[Any, ...]
Rows: TypeAlias = list[Row]

# ------------------------------------------------------------------------------ columns of new jobs

_ARRAYS: dict[type[inspect.Type], tuple[str, Callable[[Sequence[Any]], str]]] = {
    inspect.IntType: ("bigint", numbers),
    inspect.StrType: ("text", texts),
    inspect.EnumType: ("text", texts),
    inspect.BytesType: ("bytea", blobs),
}
# Fields of a plain job: they have no default, or nearly every job sets them.
_OFTEN_SET = ("options", "headers", "priority")
_PLAIN = {
    name: field for name, field in NEW.items() if field.default is NODEFAULT or name in _OFTEN_SET
}
_RARE = {name: field for name, field in NEW.items() if name not in _PLAIN}
_rare_values = attrgetter("when.at", *_RARE)
_RARE_DEFAULTS = (None, *(field.default for field in _RARE.values()))


def _array(field: Field) -> tuple[str, Callable[[Sequence[Any]], str]]:
    """The type of a field's column, and the function that writes an array of it."""
    return _ARRAYS.get(type(field.type), ("jsonb", jsons))


def _writers(fields: dict[str, Field]) -> list[tuple[str, Any, Callable[[Sequence[Any]], str]]]:
    return [(name, attrgetter(name), _array(field)[1]) for name, field in fields.items()]


_WAIT = ("wait", attrgetter("when.wait"), numbers)
_AT = ("at", attrgetter("when.at"), numbers)
_PLAIN_WRITERS = [*_writers(_PLAIN), _WAIT]
_ALL_WRITERS = [*_writers(NEW), _WAIT, _AT]


def _insert_texts(fields: dict[str, Field], *whens: str) -> dict[str, str]:
    """The generated parts of a statement that inserts jobs with these fields."""
    arrays = {name: _array(field)[0] for name, field in fields.items()}
    arrays |= dict.fromkeys(whens, "bigint")
    return {
        "columns": ", ".join(map(column, fields)),
        "values": ", ".join(f"v.{column(name)}" for name in fields),
        "arrays": ", ".join(f"%({name})s::text::{kind}[]" for name, kind in arrays.items()),
        "names": ", ".join(map(column, arrays)),
    }


INSERT_TEXTS = {f"new_{name}": text for name, text in _insert_texts(NEW, "wait", "at").items()} | {
    f"plain_{name}": text for name, text in _insert_texts(_PLAIN, "wait").items()
}


def are_plain(jobs: Sequence[NewJob]) -> bool:
    """Whether these jobs have the fields of a plain job only, and are due now or after a delay."""
    return all(map(_RARE_DEFAULTS.__eq__, map(_rare_values, jobs)))


def plain_columns(jobs: Sequence[NewJob]) -> dict[str, Any]:
    """The columns of plain jobs, one array each."""
    return {name: write(list(map(get, jobs))) for name, get, write in _PLAIN_WRITERS}


def columns(jobs: Sequence[NewJob]) -> dict[str, Any]:
    """All columns of new jobs, one array each."""
    return {name: write(list(map(get, jobs))) for name, get, write in _ALL_WRITERS}


# ------------------------------------------------------------------------------------------- claims

_FIELDS = Claim.__struct_fields__
_TYPES = get_type_hints(Claim, include_extras=True)
_CONVERTED = [
    (_FIELDS.index(name), _TYPES[name])
    for name, field in CLAIM.items()
    if _array(field)[1] is jsons
]


def claim_values(row: str, *, lost: str | None = None) -> list[str]:
    """The fields of a `Claim` in their order, as SQL. `row` names a row with the columns
    `{claim_columns}`, `clock.now` is the time, and `lost` the worker that lost the job.

    A token is the clock, or one more than the last token if that is later. A claim that was not
    synced to disk can be lost in a crash of the server; then the job is claimed again from its
    state before. With a plain count two runs would have the same token, and each could settle the
    other's job."""
    special = {
        "token": f"greatest({row}.token + 1, clock.now)",
        "at": "clock.now",
        "ref": None,
        "lost": lost,
    }
    values = [special.get(name, f"{row}.{column(name)}") for name in _FIELDS]
    while values[-1] is None:  # these have None as their default
        values.pop()
    return [value or "null" for value in values]


CLAIM_TEXTS = {
    "claim_columns": ", ".join(f"j.{column(name)}" for name in CLAIM),
    "claim_nulls": ", ".join("null" for _ in claim_values("c")),
    "claimed": ", ".join(claim_values("c")),
    "reaped": ", ".join(claim_values("e", lost="e.worker")),
}


class ClaimHeader(msgspec.Struct, frozen=True):
    """What `claim.sql` says of all queues, in its first row: the clock; the next point in time at
    which a job is due or a hold ends; the value of the sequence `_behind`; how many holds have
    ended and must be removed."""

    now: int
    next_due: int | None  # not checked: a record that cannot be read must not stop all claims
    behind: int
    ended_holds: int


claim_header = msgspec.json.Decoder(ClaimHeader).decode


def claims(rows: Iterable[Row], first: int = 0) -> list[Claim]:
    """The claims in these rows: their columns from `first` on are the fields of `Claim`."""
    if _CONVERTED:
        rows = [_converted(row, first) for row in rows]
    return [Claim(*row[first:]) for row in rows]


def _converted(row: Row, first: int) -> Row:
    """The row with its JSON values converted to the types of `Claim`. `first` is the position of
    the first column of the record."""
    values = list(row)
    for at, kind in _CONVERTED:
        values[first + at] = msgspec.convert(values[first + at], kind)
    return tuple(values)


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
