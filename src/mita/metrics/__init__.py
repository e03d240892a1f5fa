"""Metrics for Prometheus (extra `metrics`): a collector over the counters, and the address where a
worker serves it."""

from .collector import Collector as Collector
from .depths import Depths as Depths
from .serve import serving as serving
from .sharing import Source as Source
from .sharing import join as join
from .table import TABLE as TABLE
