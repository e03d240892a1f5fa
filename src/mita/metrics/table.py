"""Every metric in one table: the collector, the guide and its test are made from it."""

from msgspec import Struct


class Described(Struct, frozen=True):
    """`kind` is what Prometheus calls its type. Labels never hold an id."""

    name: str
    kind: str
    labels: tuple[str, ...]
    help: str


_JOB = ("queue", "task")

TABLE: tuple[Described, ...] = (
    Described(
        "mita_enqueued_total",
        "counter",
        _JOB,
        "jobs taken in by this process, those of repeats it fired included",
    ),
    Described("mita_started_total", "counter", _JOB, "runs that began"),
    Described(
        "mita_finished_total",
        "counter",
        (*_JOB, "outcome"),
        "jobs that ended: succeeded, failed or cancelled",
    ),
    Described("mita_retries_total", "counter", _JOB, "runs that failed and will be tried again"),
    Described(
        "mita_retried_jobs_total",
        "counter",
        _JOB,
        "jobs that had to be tried again, each counted once",
    ),
    Described("mita_retry_exhausted_total", "counter", _JOB, "jobs that failed with no retry left"),
    Described(
        "mita_retry_latency_seconds",
        "histogram",
        _JOB,
        "time that jobs spend in backoff before a retry",
    ),
    Described(
        "mita_rescheduled_total",
        "counter",
        (*_JOB, "reason"),
        "moves in time, never failures: handler, api, resource_busy, rate_limited, unavailable, "
        "shutdown, sleep, signal",
    ),
    Described(
        "mita_rate_waits_total", "counter", _JOB, "jobs that found no token of their rate and wait"
    ),
    Described(
        "mita_expired_total",
        "counter",
        _JOB,
        "jobs that were cancelled because they did not start within `expires` of their due time",
    ),
    Described(
        "mita_crashes_total", "counter", _JOB, "runs whose worker died, taken over by this one"
    ),
    Described(
        "mita_stale_writes_total",
        "counter",
        _JOB,
        "verdicts refused because the job was another worker's by then",
    ),
    Described("mita_run_seconds", "histogram", _JOB, "how long runs took, however they ended"),
    Described("mita_wait_seconds", "histogram", _JOB, "from the due time to the start of a run"),
    Described(
        "mita_limit_wait_seconds",
        "histogram",
        (*_JOB, "reason"),
        "from the due time to the first run, of jobs that waited at a limit, by what they have: "
        "key, rate or both",
    ),
    Described(
        "mita_lateness_seconds",
        "histogram",
        _JOB,
        "how late timers and repeats start: from the time a job was given, or the fire time of "
        "its repeat",
    ),
    Described(
        "mita_signals_total",
        "counter",
        _JOB,
        "signals that this process gave to jobs (app.signal, mita signal)",
    ),
    Described("mita_children_total", "counter", _JOB, "child jobs that handlers started (job.run)"),
    Described("mita_flows_started_total", "counter", ("flow",), "flows enqueued by this process"),
    Described(
        "mita_flows_ended_total",
        "counter",
        ("flow", "state"),
        "flows that ended, by state: succeeded, failed, cancelled",
    ),
    Described(
        "mita_flow_seconds",
        "histogram",
        ("flow",),
        "from the enqueue of a flow to its end, however it ended",
    ),
    Described("mita_jobs", "gauge", ("queue", "state"), "jobs in the store, by state"),
    Described(
        "mita_oldest_ready_seconds",
        "gauge",
        ("queue",),
        "how long the oldest ready job has been ready",
    ),
    Described(
        "mita_queue_limit",
        "gauge",
        ("queue",),
        "how many jobs of a limited queue may run at once; 0: it is stopped",
    ),
    Described(
        "mita_queue_tokens",
        "gauge",
        ("queue",),
        "how many jobs the rate of a limited queue lets start now",
    ),
    Described("mita_workers", "gauge", (), "workers alive"),
    Described("mita_outbox_rows", "gauge", (), "rows of the outbox that wait for the relay"),
    Described(
        "mita_outbox_oldest_seconds",
        "gauge",
        (),
        "how long the oldest row of the outbox has waited for the relay",
    ),
    Described(
        "mita_outbox_parked", "gauge", (), "rows of the outbox whose jobs the store has refused"
    ),
    Described(
        "mita_repeat_fires_total",
        "counter",
        (*_JOB, "policy"),
        "jobs made by repeats, by policy: skip, once, all",
    ),
    Described(
        "mita_repeat_windows_dropped_total",
        "counter",
        (*_JOB, "policy"),
        "windows that repeats passed over, by policy (all: at its cap)",
    ),
    Described(
        "mita_repeats_paused_total",
        "counter",
        _JOB,
        "repeats that were paused after too many failures in a row (pause_after)",
    ),
    Described(
        "mita_scheduler_lock",
        "unknown",
        ("outcome",),
        "how often the schedulers' lock was acquired, found held by another, lost or released here",
    ),
    Described(
        "mita_store_errors_total",
        "counter",
        ("operation",),
        "calls to the store that failed, by operation",
    ),
    Described("mita_claim_batch_size", "histogram", (), "jobs given by one claim"),
    Described("mita_claim_seconds", "histogram", (), "round trips that claim"),
    Described("mita_settle_batch_size", "histogram", (), "jobs settled by one call"),
    Described("mita_settle_seconds", "histogram", (), "round trips that settle"),
    Described(
        "mita_events_dropped_total",
        "counter",
        (),
        "events that listeners in this process were too slow for",
    ),
)

BY_NAME = {described.name: described for described in TABLE}
