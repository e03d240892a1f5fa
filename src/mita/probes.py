"""Serves `/live` and `/ready`, and the page of metrics if there is one, over HTTP on threads of its
own. It needs only the standard library."""

import errno
import logging
import socket
import threading
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from socketserver import ThreadingMixIn
from typing import Any, TypeAlias
from wsgiref.simple_server import WSGIRequestHandler, WSGIServer

from mita.engine.pulse import Pulse
from mita.errors import UsageError
from mita.settings import Address

log = logging.getLogger("mita.metrics")

Page: TypeAlias = Callable[[dict[str, Any], Callable[..., Any]], Iterable[bytes]]
_TEXT = (("Content-Type", "text/plain; charset=utf-8"), ("Cache-Control", "no-store"))


class _ProbeServer(ThreadingMixIn, WSGIServer):
    """One thread for each request: one that waits for the store must not keep others waiting."""

    daemon_threads = True

    def __init__(self, address: Address) -> None:
        found = socket.getaddrinfo(
            address.host, address.port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
        )
        self.address_family, _, _, _, (host, port, *_) = found[0]
        super().__init__((str(host), int(port)), _SilentHandler)


class _SilentHandler(WSGIRequestHandler):
    """Probes come every few seconds, so they are not logged."""

    def log_message(self, format: str, *args: object) -> None:
        """Log nothing."""


@contextmanager
def serving_probes(
    address: Address, pulse: Pulse, *, option: str = "health", metrics: Page | None = None
) -> Iterator[Address]:
    """Serve `/live` and `/ready` until the end of the block, and `metrics` at all other paths.
    Yields the address with the port that was chosen. `option` names the address in an error. Raises
    `UsageError` if the address cannot be used."""
    try:
        server = _ProbeServer(address)
    except OSError as error:
        raise UsageError(
            f"{option} cannot be served at {address}: {error.strerror or error}. "
            f"{_remedy(address, error, option)}"
        ) from error
    server.set_app(_pages(pulse, metrics))
    thread = threading.Thread(target=server.serve_forever, name=f"mita-{option}", daemon=True)
    thread.start()
    try:
        yield Address(address.host, server.server_port)
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


def _pages(pulse: Pulse, metrics: Page | None) -> Page:
    probes = {"/live": pulse.why_not_live, "/ready": pulse.why_not_ready}

    def page(request: dict[str, Any], start: Callable[..., Any]) -> Iterable[bytes]:
        path = request.get("PATH_INFO", "")
        if (ask := probes.get(path)) is not None:
            name, why_not = path[1:], ask()
            start("503 Service Unavailable" if why_not else "200 OK", list(_TEXT))
            return [f"not {name}: {why_not}\n".encode() if why_not else f"{name}\n".encode()]
        if metrics is not None:
            return metrics(request, start)
        start("404 Not Found", list(_TEXT))
        return [b"there are /live and /ready; metrics are served at another address\n"]

    return page


def _remedy(address: Address, error: OSError, option: str) -> str:
    if isinstance(error, socket.gaierror) or error.errno == errno.EADDRNOTAVAIL:
        here = Address("127.0.0.1", address.port)
        return (
            f"The host is an address of this machine: --{option} {here} for itself alone, "
            "0.0.0.0 for all it has"
        )
    if error.errno == errno.EACCES:
        return (
            f"Ports below 1024 are the system's: choose another, for example --{option} "
            f"{Address(address.host, 9000)}"
        )
    other = Address(address.host, address.port + 1)
    return (
        f"Does another process here have port {address.port}? Choose another, for example "
        f"--{option} {other}"
    )
