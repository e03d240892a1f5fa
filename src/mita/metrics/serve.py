"""The page that Prometheus reads, at an address of the worker's."""

import logging
from collections.abc import Iterator
from contextlib import contextmanager

from prometheus_client import REGISTRY, start_http_server

from mita.errors import UsageError
from mita.settings import Address

from .sharing import Source, join, leave

log = logging.getLogger("mita.metrics")


@contextmanager
def serving(address: Address, source: Source) -> Iterator[None]:
    """Until the end of the block, on a thread of its own: all that is in the usual registry, and our own metrics."""
    try:
        server, thread = start_http_server(address.port, address.host, REGISTRY)
    except OSError as error:
        raise UsageError(
            f"metrics cannot be served at {address}: {error.strerror or error}. Does another process here have port "
            f"{address.port}? Choose another, for example --metrics {address.host}:{address.port + 1}"
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
