"""The columns of new jobs, one array each.

They follow from the fields of `NewJob` (`stores.shared.record`). A plain job has few of them, and a
job without limits not all, so there are three lists of columns."""

from collections.abc import Callable, Sequence
from operator import attrgetter, itemgetter
from typing import Any

from msgspec import NODEFAULT, inspect
from msgspec.structs import astuple

from mita.model.job import NewJob
from mita.stores.postgres.server.arrays import blobs, jsons, numbers, texts
from mita.stores.shared.record import NEW, Field
from mita.stores.shared.sql import column

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
_rare_values = attrgetter("when.at", *_RARE, "tags")
_RARE_DEFAULTS = (None, *(field.default for field in _RARE.values()), ())
# The same fields at once: they are neighbours in a job, with `when`, which is nearly always NOW.
_NEW_FIELDS = NewJob.__struct_fields__
_neighbours = itemgetter(slice(_NEW_FIELDS.index("when"), _NEW_FIELDS.index("fresh")))
_NEIGHBOURS = _neighbours(astuple(NewJob(id="", task="", queue="", payload=b"")))
# Fields of a job with one key, or with other fields that are older than limits.
_LIMITS = ("gates", "fair", "weight")
# What a search by tag reads. A record has its tags in its options.
_TAGS = {"tags": Field("tags", inspect.type_info(tuple[str, ...]), False, ())}
_ALL = NEW | _TAGS
_KEYED = {name: field for name, field in NEW.items() if name not in _LIMITS}
_limit_values = attrgetter(*_LIMITS, *_TAGS)
_LIMIT_DEFAULTS = tuple(_ALL[name].default for name in (*_LIMITS, *_TAGS))


def _some_json(values: Sequence[Any]) -> str:
    """An array of JSON values, with null for the empty ones."""
    return jsons([value or None for value in values])


def _array(field: Field) -> tuple[str, Callable[[Sequence[Any]], str]]:
    """The type of a field's column, and the function that writes an array of it."""
    return _ARRAYS.get(type(field.type), ("jsonb", _some_json))


def _writers(fields: dict[str, Field]) -> list[tuple[str, Any, Callable[[Sequence[Any]], str]]]:
    return [(name, attrgetter(name), _array(field)[1]) for name, field in fields.items()]


_WAIT = ("wait", attrgetter("when.wait"), numbers)
_AT = ("at", attrgetter("when.at"), numbers)
_PLAIN_WRITERS = [*_writers(_PLAIN), _WAIT]
_KEYED_WRITERS = [*_writers(_KEYED), _WAIT, _AT]
_ALL_WRITERS = [*_writers(_ALL), _WAIT, _AT]


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


INSERT_TEXTS = {f"new_{name}": text for name, text in _insert_texts(_ALL, "wait", "at").items()} | {
    f"plain_{name}": text for name, text in _insert_texts(_PLAIN, "wait").items()
}
INSERT_TEXTS |= {
    f"keyed_{name}": text for name, text in _insert_texts(_KEYED, "wait", "at").items()
}


def are_plain(jobs: Sequence[NewJob]) -> bool:
    """Whether these jobs have the fields of a plain job only, and are due now or after a delay."""
    if jobs and _neighbours(astuple(jobs[0])) == _NEIGHBOURS:
        found = [*map(_neighbours, map(astuple, jobs))]
        return found.count(_NEIGHBOURS) == len(jobs) or _are_plain(jobs)
    return _are_plain(jobs)


def _are_plain(jobs: Sequence[NewJob]) -> bool:
    return all(map(_RARE_DEFAULTS.__eq__, map(_rare_values, jobs)))


def plain_columns(jobs: Sequence[NewJob]) -> dict[str, Any]:
    """The columns of plain jobs, one array each."""
    return {name: write(list(map(get, jobs))) for name, get, write in _PLAIN_WRITERS}


def have_limits(jobs: Sequence[NewJob]) -> bool:
    """Whether one of these jobs has gates, a fair group or tags."""
    return not all(map(_LIMIT_DEFAULTS.__eq__, map(_limit_values, jobs)))


def keyed_columns(jobs: Sequence[NewJob]) -> dict[str, Any]:
    """The columns of jobs without limits, one array each."""
    return {name: write(list(map(get, jobs))) for name, get, write in _KEYED_WRITERS}


def columns(jobs: Sequence[NewJob]) -> dict[str, Any]:
    """All columns of new jobs, one array each."""
    return {name: write(list(map(get, jobs))) for name, get, write in _ALL_WRITERS}
