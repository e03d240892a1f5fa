"""A context variable, and an app whose task sets it in handler processes, which import this."""

from contextvars import ContextVar
from typing import Annotated

from mita import Depends, Mita

MARK: ContextVar[int] = ContextVar("mark", default=0)

app = Mita("memory://")


def shared() -> int:
    """What the mark is where shared values are made."""
    before = MARK.get()
    MARK.set(-1)
    return before


@app.task(executor="process")
def marked(n: int, shared: Annotated[int, Depends(shared, scope="worker")]) -> list[int]:
    """Set the mark. Returns what it was before, and what it was for the shared value."""
    before = MARK.get()
    MARK.set(n)
    return [before, shared]
