"""Whether a function that is registered under a taken name is the same function again, or another
one."""

import sys
from collections.abc import Callable
from typing import Any

from msgspec import Struct


class Origin(Struct, frozen=True):
    """Where a registered function comes from. `execution` is the import spec of its module: a
    reload makes a new one."""

    fn: Callable[..., Any]
    module: str
    name: str
    execution: object

    @classmethod
    def of(cls, fn: Callable[..., Any]) -> "Origin":
        module = getattr(fn, "__module__", "") or ""
        return cls(
            fn,
            module,
            getattr(fn, "__qualname__", repr(fn)),
            getattr(sys.modules.get(module), "__spec__", None),
        )

    def reloaded_as(self, later: "Origin") -> bool:
        """True if `later` takes this one's place: its module was executed again, or a person types
        it again in a shell or notebook. Two functions of one name that one execution of a module
        defines are two functions."""
        if (self.module, self.name) != (later.module, later.name):
            return False
        return self.execution is not later.execution or (
            later.module == "__main__" and hasattr(sys, "ps1")
        )

    def same_as(self, later: "Origin") -> bool:
        """True for the same function, and for one that was made by the same lines with the same
        values around it."""
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
    """Which values a function was made with: those of its closure and its defaults."""
    defaults = [*(fn.__defaults__ or ()), *(fn.__kwdefaults__ or {}).values()]
    return [id(_content(cell)) for cell in fn.__closure__ or ()] + [id(value) for value in defaults]


def _content(cell: Any) -> Any:
    """A cell is empty until the name is assigned: that of a function that names itself."""
    try:
        return cell.cell_contents
    except ValueError:
        return cell
