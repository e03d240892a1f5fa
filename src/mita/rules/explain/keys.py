"""Why a job that waits does not start: its keys, its rate, and the limit of its queue."""

from collections.abc import Iterator

from msgspec.structs import replace

from mita.model.gate import StoredLimit
from mita.model.job import State
from mita.model.time import SECOND, Moment
from mita.rules.display import as_datetime, clock, rate_option, rate_text, span, times
from mita.rules.gates import ONE_MS_US

from .evidence import APP, Evidence, Reason, ReasonCode, advise


def key_reasons(evidence: Evidence) -> Iterator[Reason]:
    """A key is on hold, as many jobs hold it as may do so, or its rate has no token."""
    gate = evidence.gate
    if gate is None:
        return
    yield from hold_reasons(evidence)
    if gate.limit == 0:
        yield _stopped(evidence, gate.key)
    elif gate.limit is not None and len(evidence.view(gate.key).holders) >= gate.limit:
        yield _held(evidence, gate.key)
    elif gate.interval_us:
        yield from _no_token(evidence)


def _stopped(evidence: Evidence, key: str) -> Reason:
    """An operator has stopped the key."""
    helps = advise("remove it", "limit", "key", key, "--none", "--queue", evidence.job.queue)
    text = f"key {key!r} has a limit of 0, so no job with it starts{_in_line(evidence)}"
    return Reason(ReasonCode.KEY_HELD, text, evidence={"key": key, "limit": 0}, **helps)


def _held(evidence: Evidence, key: str) -> Reason:
    """As many jobs hold the key as may do so."""
    holders, now = evidence.view(key).holders, evidence.now
    first = min(holders, key=lambda holder: holder.since or now)
    held = f" for {span(now - first.since)}" if first.since is not None else ""
    more = f" and {times(len(holders) - 1, 'other job')}" if len(holders) > 1 else ""
    return Reason(
        ReasonCode.KEY_HELD,
        f"key {key!r} is held by job {first.id} on "
        f"{evidence.worker(first.worker)}{held}{more}{_in_line(evidence)}",
        evidence={
            "key": key,
            "holders": [holder.id for holder in holders],
            "ahead": _ahead(evidence),
            "worker": first.worker,
            "since": None if first.since is None else as_datetime(first.since),
        },
        **advise(
            f"it starts when that job ends (or {_more(evidence, key)}); ask about that job",
            "why",
            first.id,
        ),
    )


def _more(evidence: Evidence, key: str) -> str:
    """How to let more jobs hold the key."""
    stored = evidence.view(key).limit
    if stored is None or stored.concurrency is None:
        return "give the task a higher limit="
    return "raise the limit of the key with `mita limit key`"


def _faster(evidence: Evidence, key: str) -> str:
    stored = evidence.view(key).limit
    is_stored = stored is not None and stored.interval_us
    return "a higher rate of the key (`mita limit key`)" if is_stored else "a higher Rate"


def _no_token(evidence: Evidence) -> Iterator[Reason]:
    """The rate of the key allows no start now."""
    job, now, gate = evidence.job, evidence.now, evidence.gate
    if gate is None:
        return
    opens = evidence.view(gate.key).next_start
    if opens is None and job.state is not State.BLOCKED:
        return
    ahead = _ahead(evidence)
    turn = max(opens or now, now) + ahead * gate.interval_us // ONE_MS_US
    text = (
        f"its rate of {rate_text(gate.interval_us, gate.burst)} (key {gate.key!r}) has no token "
        f"now{_in_line(evidence)}; its turn is expected in {span(turn - now)}"
    )
    yield Reason(
        ReasonCode.RATE_LIMITED,
        text,
        f"it starts then by itself; {_faster(evidence, gate.key)} starts it sooner",
        {
            "key": gate.key,
            "seconds_between_starts": gate.interval_us / ONE_MS_US / SECOND,
            "burst": gate.burst,
            "ahead": ahead,
            "expected": as_datetime(turn),
        },
    )


def hold_reasons(evidence: Evidence) -> Iterator[Reason]:
    """Its key is on hold after its due time."""
    job, now, gate = evidence.job, evidence.now, evidence.gate
    until = None if gate is None else evidence.view(gate.key).held_until
    if gate is not None and until is not None and until > max(now, job.due):
        text = (
            f"key {gate.key!r} is on hold until {clock(until, now)}, in "
            f"{span(until - now)}{_in_line(evidence)}"
        )
        found = {"key": gate.key, "until": as_datetime(until), "ahead": _ahead(evidence)}
        helps = advise("end the hold now", "unhold", gate.key, "--queue", job.queue)
        yield Reason(ReasonCode.KEY_UNAVAILABLE, text, evidence=found, **helps)


def key_free(evidence: Evidence) -> Reason:
    """It is blocked although its key is free: a wake-up was lost."""
    key = evidence.gate.key if evidence.gate is not None else None
    helps = {} if evidence.workers else advise("start a worker", "worker", APP)
    text = f"key {key!r} is free again: the next sweep of a worker wakes it"
    return Reason(ReasonCode.KEY_FREE, text, evidence={"key": key}, **helps)


def _ahead(evidence: Evidence) -> int:
    """How many jobs wait for the key before it: all of them if it is not blocked yet."""
    if evidence.job.state is State.BLOCKED:
        return evidence.ahead or 0
    return 0 if evidence.gate is None else evidence.view(evidence.gate.key).waiting


def _in_line(evidence: Evidence) -> str:
    ahead = _ahead(evidence)
    return f"; {ahead} ahead of it" if ahead else "; it is the next in line"


def queue_limit_reasons(evidence: Evidence) -> Iterator[Reason]:
    """Its queue is at the limit that an operator has set."""
    view, now = evidence.queue, evidence.now
    limit = None if view is None else view.limit
    if view is None or limit is None or evidence.job.due > now:
        return
    if limit.concurrency is not None and view.running >= limit.concurrency:
        yield _queue_is_full(evidence, limit, limit.concurrency, view.running)
    elif view.next_start is not None and view.next_start > now:
        yield _queue_has_no_token(evidence, view.next_start, limit)


def _queue_is_full(
    evidence: Evidence, limit: StoredLimit, concurrency: int, running: int
) -> Reason:
    queue, ahead = evidence.job.queue, evidence.ahead or 0
    text = f"queue {queue!r} is at its limit: {running} of {concurrency} jobs run"
    if concurrency == 0:
        text = f"queue {queue!r} has a limit of 0, so no job of it starts"
    text += f"; {_jobs_ahead(ahead)}"
    more = replace(limit, concurrency=2 * concurrency or 10)
    helps = advise("raise the limit", "limit", "queue", queue, *_options(more))
    found = {"queue": queue, "running": running, "limit": concurrency, "ahead": ahead}
    return Reason(ReasonCode.QUEUE_LIMITED, text, evidence=found, **helps)


def _queue_has_no_token(evidence: Evidence, next_start: Moment, limit: StoredLimit) -> Reason:
    queue, now, ahead = evidence.job.queue, evidence.now, evidence.ahead or 0
    turn = next_start + ahead * limit.interval_us // ONE_MS_US
    text = (
        f"queue {queue!r} starts {rate_text(limit.interval_us, limit.burst)}; "
        f"{_jobs_ahead(ahead)}; its turn is expected in {span(turn - now)}"
    )
    more = replace(limit, interval_us=max(1, limit.interval_us // 2))
    helps = advise("raise the limit", "limit", "queue", queue, *_options(more))
    found = {
        "queue": queue,
        "next_start": as_datetime(next_start),
        "ahead": ahead,
        "expected": as_datetime(turn),
    }
    return Reason(ReasonCode.QUEUE_LIMITED, text, evidence=found, **helps)


def _jobs_ahead(ahead: int) -> str:
    return f"{times(ahead, 'job')} ahead of it" if ahead else "it is the next in line"


def _options(limit: StoredLimit) -> list[str]:
    """A limit as options of `mita limit`. A limit replaces the earlier one, so all of it is
    named."""
    words = [] if limit.concurrency is None else ["--concurrency", str(limit.concurrency)]
    if limit.interval_us:
        words += ["--rate", rate_option(limit.interval_us)]
        words += ["--burst", str(limit.burst)] if limit.burst > 1 else []
    return words
