"""Rows of the file and objects of the model.

Columns, the JSON of a claim and the function that makes a `Claim` of it follow from the fields of
the structs (`stores.shared.record`). A new field with a default needs a migration that adds its
column, and nothing else here.
"""

from collections.abc import Callable, Iterable, Sequence
from operator import methodcaller
from typing import Any, get_type_hints

import msgspec
from msgspec import NODEFAULT
from msgspec.inspect import EnumType

from mita.model.job import Claim, Job, NewJob
from mita.model.outcome import TimelineEntry
from mita.model.repeat import Repeat
from mita.model.time import Moment
from mita.rules.readable import read_event, read_repeat
from mita.stores.shared.record import CLAIM, JOB, NEW, Field
from mita.stores.shared.sql import column

_to_json = msgspec.json.Encoder().encode
NO_GATES = "[]"

# Text of the file. Bytes that are not UTF-8 become surrogates, which no statement accepts.
decode_text = methodcaller("decode", "utf-8", "surrogateescape")


def is_text(row: Sequence[Any]) -> bool:
    """Whether all values of a row are texts that a statement accepts."""
    return all(
        isinstance(value, str) and (value.isascii() or _can_be_written(value)) for value in row
    )


def _can_be_written(text: str) -> bool:
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


# ------------------------------------------------------------ enqueue: the values of a `NewJob`

# Jobs that are enqueued together mostly differ only in these columns.
OWN_COLUMNS = ("id", "due", "payload")
# Most jobs have the default of the column in these, and jobs with limits differ in them. Binding a
# value costs as much as writing it.
_LIMITS = ("resource", "gates", "fair", "weight")
LIMIT_COLUMNS = (*OWN_COLUMNS, *map(column, _LIMITS))
_SHARED = [name for name in NEW if name not in (*OWN_COLUMNS, *_LIMITS)]
_SHARED_JSON = [at for at, name in enumerate(_SHARED) if NEW[name].is_json]
_SHARED_ENUMS = [at for at, name in enumerate(_SHARED) if isinstance(NEW[name].type, EnumType)]
# The columns whose values neighbours share, in the order in which they are bound.
SHARED_COLUMNS = (*map(column, _SHARED), "created", "due_fixed")


def _alike_maker() -> Callable[[NewJob], tuple[tuple[Any, ...], bool]]:
    """A function that returns the values that a job mostly shares with its neighbours, and whether
    it has limits or tags. It runs for each job of an enqueue, and attributes that are
    written out are read several times faster than by `attrgetter`."""
    values = ", ".join(f"job.{name}" for name in _SHARED)
    differs = " or ".join(
        f"job.{name} is not None" if NEW[name].optional else f"job.{name} != {NEW[name].default!r}"
        for name in _LIMITS
    )
    differs += " or job.tags != ()"  # so that a plain job is not looked at again for its tags
    made: Callable[[NewJob], tuple[tuple[Any, ...], bool]]
    made = eval(f"lambda job: (({values}), {differs})")  # noqa: S307 - field names only
    return made


alike = _alike_maker()


def bound_values(shared: tuple[Any, ...]) -> tuple[Any, ...]:
    """Shared values as a statement binds them: a text for an enum, and for what a column holds as
    JSON."""
    values = list(shared)
    for at in _SHARED_ENUMS:
        values[at] = values[at].value
    for at in _SHARED_JSON:
        values[at] = _to_json(values[at]).decode()
    return tuple(values)


def limit_values(job: NewJob) -> tuple[Any, ...]:
    """The values of the columns of its limits."""
    gates = _to_json(job.gates).decode() if job.gates else NO_GATES
    return job.resource, gates, job.fair, job.weight


# ------------------------------------------------------------ claim: the JSON of a `Claim`

# Most jobs have the default in these fields. They come as one list at the end of a row. If all of
# them are the default, the group comes instead of the list, or null.
_RARE = [
    name
    for name in CLAIM
    if JOB[name].default is not NODEFAULT and name not in ("token", "options")
]
_DECISIVE = [name for name in _RARE if name != "fair"]
_COMMON = [name for name in CLAIM if name not in _RARE]
# Where a row has the id and the task, and the rare list what decides whether a job may run.
ID, TASK = 1 + _COMMON.index("id"), 1 + _COMMON.index("task")
RESOURCE, GATES = _RARE.index("resource"), _RARE.index("gates")
LIMIT, WHEN_BUSY = len(_RARE), len(_RARE) + 1


def _selected(name: str) -> str:
    if name == "token":
        return "token + 1"  # the claim that is about to be made
    if JOB[name].is_json:
        return f"json({column(name)})"
    return f"hex({column(name)})" if JOB[name].is_bytes else column(name)


def _is_set(names: Sequence[str]) -> str:
    """The condition that a job has anything but the default in one of these fields."""
    numbers = [column(name) for name in names if JOB[name].default == 0]
    optional = [column(name) for name in names if JOB[name].optional]
    others = [name for name in names if JOB[name].default != 0 and not JOB[name].optional]
    conditions = [f"{' + '.join(numbers)} > 0", f"coalesce({', '.join(optional)}) is not null"]
    conditions += [f"{column(name)} <> {_literal(JOB[name])}" for name in others]
    return " or ".join(conditions)


def _literal(field: Field) -> str:
    if field.is_bytes:
        return f"x'{field.default.hex()}'"
    if field.is_json:
        return f"'{_to_json(field.default).decode()}'"
    return str(field.default) if isinstance(field.default, int) else f"'{field.default}'"


def _list(names: Iterable[str]) -> str:
    return ", ".join(map(_selected, names))


# [seq, the common fields, the rare fields with most and when_busy, or only the group or null]
CLAIM_ROW = (
    f"json_array(seq, {_list(_COMMON)}, case when {_is_set(_DECISIVE)} "
    f"then json_array({_list(_RARE)}, most, when_busy) else fair end)"
)


def _type(name: str) -> Any:
    """The type of a field in the JSON: bytes come as hexadecimal digits."""
    return str if JOB[name].is_bytes else get_type_hints(Job, include_extras=True)[name]


def _tuple(types: Iterable[Any]) -> Any:
    return tuple.__class_getitem__(tuple(types))


_RARE_TYPE = _tuple(map(_type, [*_RARE, "limit", "when_busy"]))
_ROW_TYPE = _tuple([int, *map(_type, _COMMON), _RARE_TYPE | str | None])
# A row that cannot be read raises: see `maintenance.set_aside`.
read_candidates: Callable[[str], list[Any]]
read_candidates = msgspec.json.Decoder(list.__class_getitem__(_ROW_TYPE)).decode
read_expired: Callable[[str], list[Any]]
read_expired = msgspec.json.Decoder(list.__class_getitem__(_tuple([_ROW_TYPE, str | None]))).decode


def rare_fields(row: Any) -> Any:
    """The rare fields of a candidate; None if all are the default, so that it has no keys."""
    rest = row[-1]
    return rest if rest.__class__ is tuple else None


def _claim_maker() -> Callable[[Any, Moment], Claim]:
    """A function `(row, now) -> Claim`, made from the fields. It runs once for each job and is most
    of what Python does in a claim, so it passes positions and not names."""

    def argument(name: str, rare: bool) -> str:
        if name == "at":
            return "now"
        if name == "ref":
            return "seq"
        field = JOB[name]
        if not rare and name in _RARE:
            return "rest" if name == "fair" else repr(field.default)
        value = f"fromhex({name})" if field.is_bytes else name
        return f"{value} if {name} else None" if field.is_bytes and field.optional else value

    def arguments(rare: bool) -> str:
        names, others = Claim.__struct_fields__, ("at", "ref")
        skipped = next(at for at, name in enumerate(names) if name not in (*CLAIM, *others))
        made = [argument(name, rare) for name in names[:skipped]]
        made += [f"{name}={argument(name, rare)}" for name in names[skipped:] if name in CLAIM]
        return ", ".join(made)

    source = f"""\
def to_claim(row, now):
    seq, {", ".join(_COMMON)}, rest = row
    if rest.__class__ is not tuple:
        return Claim({arguments(rare=False)})
    {", ".join(_RARE)}, _, _ = rest
    return Claim({arguments(rare=True)})
"""
    made: dict[str, Any] = {"Claim": Claim, "fromhex": bytes.fromhex}
    exec(source, made)  # noqa: S102 - the source is made of field names only
    maker: Callable[[Any, Moment], Claim] = made["to_claim"]
    return maker


to_claim = _claim_maker()

# ------------------------------------------------------------ other rows


def to_repeat(row: Any) -> Repeat:
    """The repeat in this row. One that cannot be read is parked, and says why."""
    return read_repeat(dict(zip(Repeat.__struct_fields__, row, strict=True)))


def to_timeline_entry(row: Any) -> TimelineEntry:
    """The line of a timeline in this row. One that cannot be read says so."""
    return read_event(dict(zip(TimelineEntry.__struct_fields__, row, strict=True)))
