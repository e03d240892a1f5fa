"""Error messages for people who know another job queue, or who mistyped a name."""

from collections.abc import Iterable
from typing import NoReturn

from mita.errors import UsageError, did_you_mean

_WHEN = "say when with .at(<an aware datetime>) or .after(<seconds>) before .enqueue(…)"
_RETRIES = "give retry=Retry(max_retries=…)"
_BACKOFF = "give retry=Retry(base=…, cap=…), or retry=Retry(waits=(1, 10, 60))"
_RATE = "give rate=Rate(10, per=1), at most 10 starts per second over all workers"
_RESULTS = "results are kept with their jobs: Mita(keep=<seconds>) says for how long"
_LATE = "leave it out: a job is settled after its run, and a dead worker's jobs run again"
_REPEAT = "put @app.repeats(Cron('0 9 * * *')) or @app.repeats(Every(60)) above @app.task"

OPTIONS = {
    **dict.fromkeys(
        ("at", "after", "due", "delay", "eta", "countdown", "run_at", "schedule_at", "schedule_in"),
        _WHEN,
    ),
    **dict.fromkeys(
        ("max_retries", "retries", "max_attempts", "retry_limit", "max_tries"), _RETRIES
    ),
    **dict.fromkeys(
        ("base", "cap", "jitter", "waits", "max_crashes"),
        "it belongs to a Retry: give retry=Retry(…)",
    ),
    **dict.fromkeys(
        (
            "retry_backoff",
            "retry_delay",
            "default_retry_delay",
            "backoff",
            "min_backoff",
            "max_backoff",
        ),
        _BACKOFF,
    ),
    **dict.fromkeys(
        ("autoretry_for", "retry_for", "throws"),
        "every error is retried but those that final=(…,) lists",
    ),
    **dict.fromkeys(("rate_limit", "max_rate", "rate_limiter"), _RATE),
    **dict.fromkeys(
        ("time_limit", "soft_time_limit", "job_timeout", "max_runtime"), "give timeout=<seconds>"
    ),
    **dict.fromkeys(
        ("ignore_result", "store_result", "result_ttl", "keep_result", "result_expires", "keep"),
        _RESULTS,
    ),
    **dict.fromkeys(
        ("ttl", "max_age", "expires_in", "expire", "discard_after"), "give expires=<seconds>"
    ),
    **dict.fromkeys(("max_duration", "expires_at"), "give deadline=<seconds>"),
    **dict.fromkeys(("acks_late", "ack_late", "reject_on_worker_lost"), _LATE),
    **dict.fromkeys(("cron", "crontab", "every", "interval", "schedule", "repeat"), _REPEAT),
    **dict.fromkeys(
        ("lock", "concurrency", "concurrency_key", "max_concurrency"),
        "give resource='…' and limit=…",
    ),
    **dict.fromkeys(
        ("job_id", "task_id", "unique_key", "dedup", "idempotency_key", "queueing_lock"),
        "give unique='…'",
    ),
    "bind": "take the job as the first parameter: def send(job: Job, …)",
    "queue_name": "give queue='…'",
}

_ENQUEUE = "await {0}.enqueue(…), or {0}.enqueue_sync(…) in code that is not async"
_CHOOSE = "await {0}.options(queue='…', priority=9).after(60).enqueue(…)"

METHODS = {
    **dict.fromkeys(
        ("delay", "send", "kiq", "defer", "defer_async", "push", "perform_async", "submit"),
        _ENQUEUE,
    ),
    **dict.fromkeys(
        ("apply_async", "send_with_options", "kicker", "configure", "using_options"), _CHOOSE
    ),
    **dict.fromkeys(
        ("s", "si", "signature", "subtask", "message"),
        "{0}.call(…), for app.enqueue_many and app.repeat",
    ),
    **dict.fromkeys(("enqueue_in", "schedule", "delayed"), "await {0}.after(<seconds>).enqueue(…)"),
    "enqueue_at": "await {0}.at(<an aware datetime>).enqueue(…)",
    "apply": "{0}(…), which calls the plain function",
}


class NoSuchMethod(UsageError, AttributeError):
    """A method that Mita does not have, but another job queue has. It is also an AttributeError, so
    that `hasattr` and `getattr` work."""


def unknown_option(name: str, known: Iterable[str]) -> str:
    """The error for an option that a task does not have."""
    if hint := OPTIONS.get(name):
        return f"unknown option {name!r}: {hint}"
    return (
        f"unknown option {name!r}{did_you_mean(name, known) or '.'} The options are "
        f"{', '.join(known)}"
    )


def unknown_argument(task: str, name: str, options: Iterable[str]) -> str:
    """A hint about a keyword that is no parameter of the task; empty if there is none."""
    if name in options:
        return f"; {name!r} is an option: {task}.options({name}=…).enqueue(…)"
    return f"; {hint}" if (hint := OPTIONS.get(name)) else ""


def no_method(task: str, method: str) -> NoReturn:
    """Raise the error for a method that a task does not have, with the name of ours if another
    queue has it."""
    if hint := METHODS.get(method):
        raise NoSuchMethod(f"a task has no {method}(): write {hint.format(task)}", name=method)
    raise AttributeError(f"a task has no attribute {method!r}", name=method)
