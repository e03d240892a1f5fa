"""Metrics for Prometheus (extra `metrics`): a collector over the tally, and the address where a worker serves it."""

from .collector import Collector as Collector
from .serve import serving as serving
from .table import TABLE as TABLE
