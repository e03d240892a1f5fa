"""Whether a function that is registered under a known name is the same function again, or another
one."""

import sys
from collections.abc import Callable
from typing import Any

from msgspec import Struct


class Origin(Struct, frozen=True):
    """Where a registered function was defined. `execution` is the import spec of its module: a
    reload makes a new one."""

    fn: Callable[..., Any]
    module: str
    name: str
    execution: object

    @classmethod
    def of(cls, fn: Callable[..., Any]) -> "Origin":
        """Return the origin of a function."""
        module = getattr(fn, "__module__", "") or ""
        return cls(
            fn,
            module,
            getattr(fn, "__qualname__", repr(fn)),
            getattr(sys.modules.get(module), "__spec__", None),
        )

    def reloaded_as(self, later: "Origin") -> bool:
        """Whether `later` replaces this one: its module was imported again, or a person typed it
        again in a shell or notebook. Two functions that one import of a module defines are two
        functions."""
        if (self.module, self.name) != (later.module, later.name):
            return False
        return self.execution is not later.execution or (
            later.module == "__main__" and hasattr(sys, "ps1")
        )

    def same_as(self, later: "Origin") -> bool:
        """Whether this is the same function, or one that the same lines made with the same
        values."""
        if self.fn is later.fn:
            return True
        code = getattr(self.fn, "__code__", None)
        return (
            code is not None
            and code is getattr(later.fn, "__code__", None)
            and _around(self.fn) == _around(later.fn)
        )

    def __str__(self) -> str:
        code = getattr(self.fn, "__code__", None)
        return f"{self.module}.{self.name}" + (f" (line {code.co_firstlineno})" if code else "")


def _around(fn: Any) -> list[int]:
    """The values that a function was made with: those of its closure and its defaults."""
    defaults = [*(fn.__defaults__ or ()), *(fn.__kwdefaults__ or {}).values()]
    return [id(_content(cell)) for cell in fn.__closure__ or ()] + [id(value) for value in defaults]


def _content(cell: Any) -> Any:
    """The value of a cell. It is empty until the name is assigned, as in a function that uses its
    own name."""
    try:
        return cell.cell_contents
    except ValueError:
        return cell
