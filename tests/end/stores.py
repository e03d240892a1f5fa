"""The stores that the processes are let loose on. A new store is one more entry: it gives a URL while it is there."""

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path


@contextmanager
def sqlite(folder: Path) -> Iterator[str]:
    yield f"sqlite:///{folder}/jobs.db"


STORES: dict[str, Callable[[Path], AbstractContextManager[str]]] = {"sqlite": sqlite}
