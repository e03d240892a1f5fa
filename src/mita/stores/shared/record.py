"""The one description of a job record: the fields of `NewJob`, `Claim` and `Job`.

Stores derive their columns, packing and unpacking from these lists, so a new field with a default
is added to the structs in `mita.model.job` and stored everywhere (SQL stores also need a column: a
migration). The names and types are read off the structs; only what a store does with a field that
has a meaning for it (state, due time, keys, counters) is written by hand.
"""

from typing import Any

from msgspec import NODEFAULT, Struct, inspect

from mita.model.job import Claim, Job, NewJob


class Field(Struct, frozen=True):
    """One field: its name, its type as `msgspec.inspect` describes it, without None; whether it may
    be None; and its default (`NODEFAULT`: it must be given)."""

    name: str
    type: Any
    optional: bool
    default: Any

    @property
    def is_bytes(self) -> bool:
        """Whether the field holds bytes, which JSON cannot carry."""
        return isinstance(self.type, inspect.BytesType)

    @property
    def is_json(self) -> bool:
        """Whether a column holds the field as JSON text: it is no number, text, bytes or enum."""
        plain = inspect.IntType | inspect.StrType | inspect.BytesType | inspect.EnumType
        return not isinstance(self.type, plain)


def _fields(struct: type[Struct]) -> dict[str, Field]:
    shape = inspect.type_info(struct)
    assert isinstance(shape, inspect.StructType)  # noqa: S101
    return {field.name: _field(field) for field in shape.fields}


def _field(field: inspect.Field) -> Field:
    kind, optional = field.type, False
    if isinstance(kind, inspect.UnionType):
        optional = True
        [kind] = [one for one in kind.types if not isinstance(one, inspect.NoneType)]
    default = field.default if field.default_factory is NODEFAULT else field.default_factory()
    return Field(field.name, kind, optional, default)


JOB = _fields(Job)
"""All fields that a store keeps of a job, in the order of `Job`."""

NEW = {name: field for name, field in _fields(NewJob).items() if name in JOB}
"""The fields that a store takes over from a `NewJob` as they are. `when` becomes `due`."""

CLAIM = {name: JOB[name] for name in Claim.__struct_fields__ if name in JOB}
"""The fields of a `Claim` that come from the record. A store adds `at`, and `ref` if it uses it."""

FIXED = {name: field for name, field in NEW.items() if name != "priority"}
"""The fields that never change after the enqueue."""

LIVE = {name: field for name, field in JOB.items() if name not in FIXED and name != "created"}
"""The fields that change while a job lives."""

COUNTERS = ("attempts", "reschedules", "busy", "interruptions", "crashes")

RESET_ON_RETRY: dict[str, Any] = {
    name: JOB[name].default
    for name in (
        *COUNTERS,
        *("error", "result", "finished", "expires", "stranded", "worker", "started", "group"),
    )
}
"""What a retry of a failed or cancelled job writes, beside its state and its due time: the job is
as if it had never run."""
