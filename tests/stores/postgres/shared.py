"""Servers that a whole test run shares: one of each kind, started when first asked for, stopped by
pid at the end."""

import atexit
import itertools
import os
from collections.abc import Callable
from functools import cache
from pathlib import Path

from mita.ports.clock import Clock
from mita.ports.store import Store
from mita.stores.postgres import PostgresStore

from .server import Server, binaries

_numbers = itertools.count(1)


@cache
def server(name: str) -> Server:
    started = Server(
        name, fsync="off", full_page_writes="off"
    ).start()  # never killed: tests of crashes have their own servers
    atexit.register(started.stop)
    return started


def fresh_url(name: str = "pg18") -> str:
    """An empty namespace on a shared server: quicker to make than a database."""
    return f"{server(name).url()}&namespace=t{os.getpid()}_{next(_numbers)}"


def handles(name: str) -> Callable[[Path, Clock], Callable[[], Store]]:
    def on(_: Path, clock: Clock) -> Callable[[], Store]:
        url = fresh_url(name)
        return lambda: PostgresStore(url, clock=clock)

    return on


# The system's own PostgreSQL is for `make soak`: the wheel's two are the same on every machine.
DAILY = {name for name in binaries() if not name.startswith("system") or "MITA_SOAK" in os.environ}
FACTORIES = {name: handles(name) for name in binaries() if name in DAILY}
