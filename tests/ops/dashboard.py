"""The Grafana dashboard, drawn from a list of panels: `python -m tests.ops.dashboard` writes
ops/dashboard.json."""

import json
from typing import Any

from msgspec import Struct

from .rules import OPS

FILE = OPS / "dashboard.json"
CHOSEN = '{queue=~"$queue", task=~"$task"}'
RATE = "[$__rate_interval]"


class Panel(Struct, frozen=True):
    """`queries` are PromQL by legend."""

    title: str
    help: str
    queries: dict[str, str]
    unit: str = "short"
    width: int = 12
    stat: bool = False


def rate(metric: str, by: str, labels: str = CHOSEN) -> str:
    return f"sum by ({by}) (rate({metric}{labels}{RATE}))"


def quantiles(metric: str, by: str = "", labels: str = CHOSEN) -> dict[str, str]:
    named = f"{{{{{by}}}}} " if by else ""
    grouped = f"{by}, le" if by else "le"
    return {
        f"{named}p{share * 100:g}": f"histogram_quantile({share}, "
        f"{rate(f'{metric}_bucket', grouped, labels)})"
        for share in (0.5, 0.95, 0.99)
    }


PANELS = (
    Panel(
        "Workers alive", "As the store knows them.", {"": "max(mita_workers)"}, width=4, stat=True
    ),
    Panel(
        "Waiting",
        "Ready, scheduled, waiting and blocked jobs.",
        {
            "": 'sum(max by (queue, state) (mita_jobs{queue=~"$queue", '
            'state=~"ready|scheduled|waiting|blocked"}))'
        },
        width=4,
        stat=True,
    ),
    Panel(
        "Runs",
        "Runs that began.",
        {"": f"sum(rate(mita_started_total{CHOSEN}{RATE}))"},
        "ops",
        width=4,
        stat=True,
    ),
    Panel(
        "Retried",
        "Share of runs that failed and are tried again; above 10 % is an alert.",
        {
            "": f"sum(rate(mita_retries_total{CHOSEN}{RATE})) / "
            f"sum(rate(mita_started_total{CHOSEN}{RATE}))"
        },
        "percentunit",
        width=4,
        stat=True,
    ),
    Panel(
        "Oldest ready",
        "How long the oldest ready job has waited.",
        {"": 'max(mita_oldest_ready_seconds{queue=~"$queue"})'},
        "s",
        width=4,
        stat=True,
    ),
    Panel(
        "Dead letters",
        "Failed jobs that are kept.",
        {"": 'sum(max by (queue) (mita_jobs{queue=~"$queue", state="failed"}))'},
        width=4,
        stat=True,
    ),
    Panel(
        "Depth",
        "Jobs in the store that are not over, by queue and state.",
        {
            "{{queue}} {{state}}": (
                'max by (queue, state) (mita_jobs{queue=~"$queue", '
                'state=~"ready|scheduled|waiting|blocked|running"})'
            )
        },
    ),
    Panel(
        "Oldest ready job",
        "Grows while a queue is not worked off.",
        {"{{queue}}": 'max by (queue) (mita_oldest_ready_seconds{queue=~"$queue"})'},
        "s",
    ),
    Panel(
        "In and out",
        "Jobs enqueued, and how they ended.",
        {
            "enqueued": f"sum(rate(mita_enqueued_total{CHOSEN}{RATE}))",
            "{{outcome}}": rate("mita_finished_total", "outcome"),
        },
        "ops",
    ),
    Panel(
        "Failures",
        "Runs that are retried, jobs that had to be retried at all, and jobs whose retries are "
        "used up.",
        {
            "{{task}} retried": rate("mita_retries_total", "task"),
            "{{task}} jobs retried": rate("mita_retried_jobs_total", "task"),
            "{{task}} exhausted": rate("mita_retry_exhausted_total", "task"),
        },
        "ops",
    ),
    Panel(
        "Moves in time",
        "Never failures: by their handler, from outside, for a busy key, because something is "
        "unavailable, by a shutdown.",
        {"{{reason}}": rate("mita_rescheduled_total", "reason")},
        "ops",
    ),
    Panel(
        "Crashes and stale writes",
        "Runs whose worker died, and verdicts that came after the lease was lost.",
        {
            "{{task}} crashed": rate("mita_crashes_total", "task"),
            "{{task}} stale": rate("mita_stale_writes_total", "task"),
        },
        "ops",
    ),
    Panel(
        "Expired",
        "Jobs that did not start within `expires` of their due time, and were cancelled.",
        {"{{task}}": rate("mita_expired_total", "task")},
        "ops",
    ),
    Panel(
        "Waits at a rate",
        "How often a job found no token of its rate.",
        {"{{task}}": rate("mita_rate_waits_total", "task")},
        "ops",
    ),
    Panel(
        "Wait at limits",
        "From the due time to the first run, of jobs that waited for a key, a rate or both.",
        quantiles("mita_limit_wait_seconds", "reason"),
        "s",
    ),
    Panel(
        "Limited queues",
        "How many jobs may run at once, how many run, and how many the rate lets start now.",
        {
            "{{queue}} limit": 'max by (queue) (mita_queue_limit{queue=~"$queue"})',
            "{{queue}} tokens": 'max by (queue) (mita_queue_tokens{queue=~"$queue"})',
            "{{queue}} running": 'max by (queue) (mita_jobs{queue=~"$queue", state="running"})',
        },
    ),
    Panel(
        "Flows",
        "Flows that were enqueued, and how flows ended.",
        {
            "{{flow}} started": rate("mita_flows_started_total", "flow", ""),
            "{{flow}} {{state}}": rate("mita_flows_ended_total", "flow, state", ""),
        },
        "ops",
    ),
    Panel(
        "Flow time",
        "From the enqueue of a flow to its end.",
        quantiles("mita_flow_seconds", "flow", ""),
        "s",
    ),
    Panel(
        "Signals and children",
        "Signals that were given to jobs, and child jobs that handlers started.",
        {
            "{{task}} signals": rate("mita_signals_total", "task"),
            "{{task}} children": rate("mita_children_total", "task"),
        },
        "ops",
    ),
    Panel("Run time", "However the runs ended.", quantiles("mita_run_seconds"), "s"),
    Panel("Wait", "From the due time to the start.", quantiles("mita_wait_seconds"), "s"),
    Panel("Lateness", "Of timers and repeats.", quantiles("mita_lateness_seconds"), "s"),
    Panel(
        "Backoff",
        "Time that jobs spend waiting for a retry.",
        quantiles("mita_retry_latency_seconds"),
        "s",
    ),
    Panel(
        "Repeats",
        "Jobs made by repeats, by what they do about missed fires; repeats paused after failures; "
        "changes of the schedulers' lock.",
        {
            "{{policy}}": rate("mita_repeat_fires_total", "policy"),
            "{{policy}} dropped": rate("mita_repeat_windows_dropped_total", "policy"),
            "paused": rate("mita_repeats_paused_total", ""),
            "lock {{outcome}}": rate("mita_scheduler_lock", "outcome", ""),
        },
        "ops",
    ),
    Panel(
        "Store errors",
        "Calls to the store that failed.",
        {"{{operation}}": rate("mita_store_errors_total", "operation", "")},
        "ops",
    ),
    Panel(
        "Round trips to the store",
        "A worker settles and claims in one: such a trip is in both.",
        {
            "claim p95": f"histogram_quantile(0.95, {rate('mita_claim_seconds_bucket', 'le', '')})",
            "settle p95": "histogram_quantile(0.95, "
            f"{rate('mita_settle_seconds_bucket', 'le', '')})",
        },
        "s",
    ),
    Panel(
        "Batches",
        "Jobs per claim and per settle: they grow with the load.",
        {
            "claim "
            "p95": f"histogram_quantile(0.95, {rate('mita_claim_batch_size_bucket', 'le', '')})",
            "settle p95": "histogram_quantile(0.95, "
            f"{rate('mita_settle_batch_size_bucket', 'le', '')})",
        },
    ),
    Panel(
        "Events dropped",
        "Events that listeners were too slow for; jobs are not touched by it.",
        {"": f"sum(rate(mita_events_dropped_total{RATE}))"},
        "ops",
    ),
    Panel(
        "Outbox rows",
        "Rows that wait for the relay, and rows whose jobs the store has refused.",
        {"waiting": "max(mita_outbox_rows)", "parked": "max(mita_outbox_parked)"},
    ),
    Panel(
        "Outbox lag",
        "How long the oldest row has waited for the relay.",
        {"": "max(mita_outbox_oldest_seconds)"},
        "s",
    ),
)


def board() -> dict[str, Any]:
    return {
        "uid": "mita",
        "title": "Mita",
        "tags": ["mita"],
        "timezone": "utc",
        "schemaVersion": 39,
        "refresh": "30s",
        "time": {"from": "now-1h", "to": "now"},
        "templating": {
            "list": [
                _source(),
                _variable("queue", "mita_jobs"),
                _variable("task", "mita_started_total"),
            ]
        },
        "panels": [
            _drawn(n, panel, place)
            for n, (panel, place) in enumerate(zip(PANELS, _places(), strict=True), 1)
        ],
    }


def _places() -> list[dict[str, int]]:
    """From left to right, 24 columns wide, row after row."""
    places, x, y = [], 0, 0
    for panel in PANELS:
        height = 4 if panel.stat else 8
        if x + panel.width > 24:
            x = 0
        places.append({"h": height, "w": panel.width, "x": x, "y": y})
        x += panel.width
        if x >= 24:
            x, y = 0, y + height
    return places


def _drawn(n: int, panel: Panel, place: dict[str, int]) -> dict[str, Any]:
    return {
        "id": n,
        "type": "stat" if panel.stat else "timeseries",
        "title": panel.title,
        "description": panel.help,
        "gridPos": place,
        "datasource": {"type": "prometheus", "uid": "${datasource}"},
        "fieldConfig": {"defaults": {"unit": panel.unit, "min": 0}, "overrides": []},
        "targets": [
            {"refId": chr(ord("A") + i), "expr": query, "legendFormat": legend}
            for i, (legend, query) in enumerate(panel.queries.items())
        ],
    }


def _source() -> dict[str, Any]:
    return {
        "name": "datasource",
        "type": "datasource",
        "query": "prometheus",
        "label": "Prometheus",
    }


def _variable(label: str, metric: str) -> dict[str, Any]:
    return {
        "name": label,
        "type": "query",
        "datasource": {"type": "prometheus", "uid": "${datasource}"},
        "query": f"label_values({metric}, {label})",
        "refresh": 2,
        "includeAll": True,
        "allValue": ".*",
        "multi": True,
        "current": {"text": "All", "value": "$__all"},
    }


def text() -> str:
    return json.dumps(board(), indent=1, ensure_ascii=False) + "\n"


if __name__ == "__main__":
    FILE.write_text(text())
