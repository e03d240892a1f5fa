"""Serves the page that Prometheus reads, at an address of the worker."""

import logging
from collections.abc import Iterator
from contextlib import contextmanager

from prometheus_client import REGISTRY, make_wsgi_app

from mita.engine.pulse import Pulse
from mita.probes import serving_probes
from mita.settings import Address

from .sharing import Source, join, leave

log = logging.getLogger("mita.metrics")


@contextmanager
def serving(address: Address, source: Source, pulse: Pulse) -> Iterator[None]:
    """Serve the default registry and Mita's own metrics, beside `/live` and `/ready`, until the end
    of the block."""
    page = make_wsgi_app(REGISTRY)
    with serving_probes(address, pulse, option="metrics", metrics=page) as served:
        log.info("metrics are served at http://%s/metrics", served)
        join(REGISTRY, source)
        try:
            yield
        finally:
            leave(REGISTRY, source)
