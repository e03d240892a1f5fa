"""The place where `app.acting` notes who acts, until the end of its block."""

from collections.abc import Iterator
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from typing import Any

# None: nobody acts, and nothing is recorded. Every enqueue looks at it.
ACTING: ContextVar[Any] = ContextVar("mita_acting", default=None)


@contextmanager
def noted(acting: Any) -> Iterator[None]:
    """Note who acts, until the end of the block, for this task and the tasks that it starts. None:
    nobody, whatever was noted before."""
    token = ACTING.set(acting)
    try:
        yield
    finally:
        # a block that ends in another context than it began in has noted nothing there
        with suppress(ValueError):
            ACTING.reset(token)
