"""Serves the page that Prometheus reads, at an address of the worker."""

import errno
import logging
import socket
from collections.abc import Iterator
from contextlib import contextmanager

from prometheus_client import REGISTRY, start_http_server

from mita.errors import UsageError
from mita.settings import Address

from .sharing import Source, join, leave

log = logging.getLogger("mita.metrics")


@contextmanager
def serving(address: Address, source: Source) -> Iterator[None]:
    """Serve the default registry and Mita's own metrics until the end of the block, on a thread of
    its own."""
    try:
        server, thread = start_http_server(address.port, address.host, REGISTRY)
    except OSError as error:
        raise UsageError(
            f"metrics cannot be served at {address}: {error.strerror or error}. "
            f"{_remedy(address, error)}"
        ) from error
    log.info("metrics are served at http://%s/metrics", Address(address.host, server.server_port))
    join(REGISTRY, source)
    try:
        yield
    finally:
        leave(REGISTRY, source)
        server.shutdown()
        server.server_close()
        thread.join()


def _remedy(address: Address, error: OSError) -> str:
    if isinstance(error, socket.gaierror) or error.errno == errno.EADDRNOTAVAIL:
        here = Address("127.0.0.1", address.port)
        return (
            f"The host is an address of this machine: --metrics {here} for itself alone, "
            "0.0.0.0 for all it has"
        )
    if error.errno == errno.EACCES:
        return (
            "Ports below 1024 are the system's: choose another, for example --metrics "
            f"{Address(address.host, 9000)}"
        )
    other = Address(address.host, address.port + 1)
    return (
        f"Does another process here have port {address.port}? Choose another, for example "
        f"--metrics {other}"
    )
