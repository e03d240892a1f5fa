"""Pydantic's types as arguments and results, if Pydantic is installed. Mita does not need it.

A model is stored as the plain values of its JSON form, so that it can be read without its class. It
is validated again when it is read. Pydantic is not imported before one of its types is used."""

import inspect
import json
from functools import lru_cache
from typing import Any

MOST_ERRORS = 5  # of one model, that are shown
_MARKS = ("__get_pydantic_core_schema__", "__is_pydantic_dataclass__")


def is_model(kind: object) -> bool:
    """Whether this is a Pydantic model, a Pydantic dataclass, or a type that Pydantic defines
    (`HttpUrl`, `EmailStr`)."""
    return isinstance(kind, type) and any(hasattr(kind, mark) for mark in _MARKS)


def is_constraint(metadata: object) -> bool:
    """Whether Pydantic understands this inside `Annotated[…]`: `Field(gt=0)`,
    `annotated_types.Gt(0)`, a validator."""
    return type(metadata).__module__.partition(".")[0] in ("pydantic", "annotated_types")


class Adapter:
    """Reads and writes the values of one annotation, with Pydantic's `TypeAdapter`."""

    def __init__(self, kind: Any) -> None:
        from pydantic import TypeAdapter

        self._adapter: Any = TypeAdapter(kind)
        # since Pydantic 2.11
        by_name = "by_name" in inspect.signature(TypeAdapter.validate_json).parameters
        self._reading = {"by_name": True, "by_alias": True} if by_name else {}
        self._writing = {"round_trip": True, "by_alias": not by_name}

    def dump(self, value: Any) -> Any:
        """Return the value as plain values. Raises for a `SecretStr`, which Pydantic would write as
        asterisks."""
        if _has_secret(self._adapter.dump_python(value, **self._writing)):
            raise TypeError(
                "a SecretStr would be stored as asterisks: pass the text, and mark the task with "
                "secret="
            )
        return self._adapter.dump_python(value, mode="json", **self._writing)

    def load(self, stored: Any) -> Any:
        """Return the value, validated. Raises a `ValueError` that says which field is wrong,
        without the field's value."""
        from pydantic import ValidationError

        try:
            return self._load(stored)
        except ValidationError as error:
            found = error.errors(include_url=False, include_input=False, include_context=False)
            raise ValueError("; ".join(map(_in_words, found[:MOST_ERRORS]))) from error

    def _load(self, stored: Any) -> Any:
        try:
            text = json.dumps(stored)
        except (TypeError, ValueError):
            # values that a caller passed as they are, such as a dict with a datetime
            return self._adapter.validate_python(stored, **self._reading)
        # a strict model takes texts for dates in JSON alone
        return self._adapter.validate_json(text, **self._reading)


@lru_cache(maxsize=1024)
def adapter(kind: Any) -> Adapter:
    """Return the adapter of a class."""
    return Adapter(kind)


def _has_secret(value: Any) -> bool:
    if isinstance(value, dict):
        return any(map(_has_secret, value.values()))
    if isinstance(value, list | tuple | set | frozenset):
        return any(map(_has_secret, value))
    return hasattr(value, "get_secret_value")


def _in_words(error: Any) -> str:
    where = ".".join(map(str, error["loc"]))
    return f"{where}: {error['msg']}" if where else str(error["msg"])
