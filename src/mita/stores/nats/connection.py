"""Opening a connection: settings of the driver, and a first connect that fails in time.

Later losses are the driver's work: it reconnects for ever, and `client.link` waits or raises
meanwhile."""

import asyncio
from collections.abc import Sequence
from typing import Any

from .client.errors import is_refusal, unreached
from .client.wire import NatsWire

CONNECT_TIMEOUT_S = 5
CONNECT_TRIES = 2  # failed tries for each server until `connect` raises
RECONNECT_DELAY_S = 0.1
UNANSWERED_PINGS = 2  # after so many the driver connects again
_POLL_S = 0.02


async def connect(servers: Sequence[str], options: dict[str, Any], silence_s: float) -> NatsWire:
    """Connect to one of these servers. `options` go to the driver as they are. A server that is
    silent for `silence_s` seconds counts as lost.

    Raises a StoreError that names the servers if none of them can be reached."""
    wire = NatsWire(shown(servers))
    settings: dict[str, Any] = {
        "servers": list(servers),
        "connect_timeout": CONNECT_TIMEOUT_S,
        "ping_interval": silence_s / UNANSWERED_PINGS,
        "max_outstanding_pings": UNANSWERED_PINGS,
        "max_reconnect_attempts": -1,
        "reconnect_time_wait": RECONNECT_DELAY_S,
        "allow_reconnect": True,
        **wire.callbacks(),
        **options,
    }
    await _first_connect(wire, settings)
    await wire.open_inbox()
    return wire


async def _first_connect(wire: NatsWire, settings: dict[str, Any]) -> None:
    """The driver would try for ever at the first connect too; the caller of `open` wants an
    error."""
    loop = asyncio.get_running_loop()
    connecting = asyncio.ensure_future(wire.connect(**settings))
    deadline = loop.time() + settings["connect_timeout"] + 1
    tries = CONNECT_TRIES * len(settings["servers"])
    while not connecting.done() and len(wire.problems) < tries and loop.time() < deadline:
        await asyncio.wait([connecting], timeout=_POLL_S)
    if connecting.done() and connecting.exception() is None:
        return
    error = (connecting.exception() if connecting.done() else None) or _main_problem(wire)
    wire.ending = True
    connecting.cancel()
    await asyncio.wait([connecting])
    await wire.disconnect()
    raise unreached(error, wire.where) from error


def _main_problem(wire: NatsWire) -> BaseException:
    """A refusal says more than the broken connections that come with it."""
    refusals = [problem for problem in wire.problems if is_refusal(str(problem))]
    return (refusals or wire.problems or [TimeoutError()])[-1]


def shown(servers: Sequence[str]) -> str:
    """Returns the servers' addresses as text, without the passwords in them."""
    parts = [server.rpartition("://") for server in servers]
    return ", ".join(f"{scheme or 'nats'}://{rest.rpartition('@')[2]}" for scheme, _, rest in parts)
