"""A small store for Mita: all jobs in one file, which every operation reads and writes whole.

It shows what a store has to do, in the simplest way that keeps the contract. It is slow.
"""

from pathlib import Path
from urllib.parse import urlsplit

from mita.ports.clock import Clock
from mita.ports.store import StoreFactory
from mita.settings import StoreURL

from .store import ExampleStore

__all__ = ["ExampleStore", "make_factory"]


def make_factory(url: StoreURL, clock: Clock | None) -> StoreFactory:
    """The entry point: `example:///jobs` means the file `/jobs`."""
    path = Path(urlsplit(url.text).path)
    return lambda: ExampleStore(path.with_name(f"{path.name}.{url.namespace}"), clock)
