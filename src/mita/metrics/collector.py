"""From the counters to what Prometheus reads."""

from collections.abc import Callable, Iterable, Iterator
from typing import Any

from prometheus_client.core import (
    CounterMetricFamily,
    GaugeMetricFamily,
    HistogramMetricFamily,
    UnknownMetricFamily,
)
from prometheus_client.metrics_core import Metric
from prometheus_client.registry import Collector as Base

from mita.events.counters import Counters, Counts
from mita.events.flow_counters import FlowCounts
from mita.events.histogram import Histogram
from mita.model.record import DisplayState
from mita.model.time import SECOND
from mita.rules.bulk import OWN_TASK_NAMES

from .depths import Depth
from .table import BY_NAME

_PLAIN = {
    "mita_enqueued_total": "enqueued",
    "mita_started_total": "started",
    "mita_retries_total": "retries",
    "mita_retried_jobs_total": "retried",
    "mita_retry_exhausted_total": "exhausted",
    "mita_expired_total": "expired",
    "mita_rate_waits_total": "rate_waits",
    "mita_crashes_total": "crashes",
    "mita_stale_writes_total": "stale",
    "mita_signals_total": "signals",
    "mita_children_total": "children",
}
_SPREAD = {
    "mita_run_seconds": "run",
    "mita_wait_seconds": "wait",
    "mita_lateness_seconds": "lateness",
    "mita_retry_latency_seconds": "retry_latency",
}
_FAMILIES: dict[str, type[Any]] = {
    "counter": CounterMetricFamily,
    "gauge": GaugeMetricFamily,
    "unknown": UnknownMetricFamily,
}


class Collector(Base):
    """For `registry.register(…)`. At each scrape it calls its arguments: for the counters, for the
    depths of the queues, and for the number of events that listeners lost."""

    def __init__(
        self,
        tally: Callable[[], Counters],
        depth: Callable[[], Depth | None],
        dropped: Callable[[], int],
    ) -> None:
        self._tally, self._depth, self._dropped = tally, depth, dropped

    def describe(self) -> Iterable[Metric]:
        """Returns nothing: otherwise a registry that asks for the names would call the store."""
        return []

    def collect(self) -> Iterator[Metric]:
        """Returns all metric families with their current values."""
        tally = self._tally()
        yield from _of_jobs(tally)
        yield from _of_flows(tally.flows)
        yield _made("mita_repeat_fires_total", tally.fires.items())
        yield _made("mita_repeat_windows_dropped_total", tally.dropped.items())
        yield _made("mita_repeats_paused_total", tally.paused.items())
        yield _made(
            "mita_scheduler_lock", (((outcome,), count) for outcome, count in tally.locks.items())
        )
        yield _made(
            "mita_store_errors_total",
            (((name,), count) for name, count in tally.store_errors.items()),
        )
        yield _spread("mita_claim_batch_size", [((), tally.claim_sizes)])
        yield _spread("mita_claim_seconds", [((), tally.claim_seconds)])
        yield _spread("mita_settle_batch_size", [((), tally.settle_sizes)])
        yield _spread("mita_settle_seconds", [((), tally.settle_seconds)])
        yield _made("mita_events_dropped_total", [((), self._dropped())])
        yield from _of_store(self._depth())


def _of_jobs(tally: Counters) -> Iterator[Metric]:
    # Mita's own jobs are no task of the user
    jobs = sorted(one for one in tally.jobs.items() if one[0][1] not in OWN_TASK_NAMES)
    for name, field in _PLAIN.items():
        yield _made(name, ((labels, getattr(counts, field)) for labels, counts in jobs))
    yield _made("mita_finished_total", _each(jobs, "finished"))
    yield _made("mita_rescheduled_total", _each(jobs, "moved"))
    for name, field in _SPREAD.items():
        yield _spread(name, ((labels, getattr(counts, field)) for labels, counts in jobs))
    yield _spread(
        "mita_limit_wait_seconds",
        (
            ((*labels, what), waits)
            for labels, counts in jobs
            for what, waits in sorted(counts.limit_waits.items())
        ),
    )


def _of_flows(flows: FlowCounts) -> Iterator[Metric]:
    yield _made("mita_flows_started_total", (((name,), n) for name, n in flows.started.items()))
    yield _made("mita_flows_ended_total", flows.ended.items())
    yield _spread(
        "mita_flow_seconds", (((name,), seconds) for name, seconds in flows.seconds.items())
    )


def _each(
    jobs: list[tuple[tuple[str, str], Counts]], field: str
) -> Iterator[tuple[tuple[str, ...], int]]:
    for labels, counts in jobs:
        for what, count in getattr(counts, field).items():
            yield (*labels, what.value), count


def _of_store(depth: Depth | None) -> Iterator[Metric]:
    queues = depth.queues if depth is not None else []
    yield _made(
        "mita_jobs",
        (
            ((view.name, state.value), getattr(view, state))
            for view in queues
            for state in DisplayState
        ),
    )
    yield _made(
        "mita_oldest_ready_seconds",
        (((view.name,), (view.oldest or 0) / SECOND) for view in queues),
    )
    yield _made(
        "mita_queue_limit",
        (
            ((view.name,), view.limit.concurrency)
            for view in queues
            if view.limit is not None and view.limit.concurrency is not None
        ),
    )
    yield _made(
        "mita_queue_tokens",
        (((view.name,), view.tokens) for view in queues if view.tokens is not None),
    )
    yield _made("mita_workers", [((), depth.workers)] if depth is not None else [])
    view = None if depth is None else depth.outbox
    gauges = ("rows", 1), ("oldest", SECOND), ("parked", 1)
    names = ("mita_outbox_rows", "mita_outbox_oldest_seconds", "mita_outbox_parked")
    for name, (field, unit) in zip(names, gauges, strict=True):
        yield _made(name, [] if view is None else [((), getattr(view, field) / unit)])


def _made(name: str, values: Iterable[tuple[tuple[str, ...], float]]) -> Metric:
    described = BY_NAME[name]
    family: Metric = _FAMILIES[described.kind](name, described.help, labels=described.labels)
    for labels, value in values:
        family.add_metric(labels, value)  # type: ignore[attr-defined]
    return family


def _spread(name: str, values: Iterable[tuple[tuple[str, ...], Histogram]]) -> Metric:
    described = BY_NAME[name]
    family = HistogramMetricFamily(name, described.help, labels=described.labels)
    for labels, histogram in values:
        family.add_metric(labels, _cumulative(histogram), histogram.total)
    return family


def _cumulative(histogram: Histogram) -> list[tuple[str, float]]:
    """Returns the cumulative bucket counts (`le`), ending with +Inf."""
    so_far = 0
    buckets: list[tuple[str, float]] = []
    for bound, count in zip(
        [*map(float, histogram.bounds), float("inf")], histogram.buckets, strict=True
    ):
        so_far += count
        buckets.append(("+Inf" if bound == float("inf") else str(bound), so_far))
    return buckets
