"""Queues that are paused or limited, or that have groups. Other queues have no `QueueState`."""

from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

from msgspec import Struct

from mita.model.gate import MOST_HOLDERS, StoredLimit
from mita.model.job import Claim
from mita.model.outcome import Settlement
from mita.model.time import Moment
from mita.rules import gates
from mita.stores.sqlite.codec import is_text
from mita.stores.sqlite.context import SqliteContext

from .key_states import as_limit, as_number_us, limit_text


class QueueState(Struct):
    """One queue in one transaction. `running` is known only if its limit needs it."""

    paused: bool
    limit: StoredLimit | None
    tat_us: int
    has_groups: bool
    running: int = 0


class Stops(NamedTuple):
    """What may stop a job from starting, beside its own keys: the state of its queue, keys on hold,
    and keys that wait for their rate."""

    queues: Mapping[str, QueueState]
    any_hold: bool
    any_rate: bool


def load(context: SqliteContext) -> Stops | None:
    """The queues and keys that need a closer look; None if there are none."""
    any_queue, any_hold, any_rate = context.row("claim_any_stops")
    if not (any_queue or any_hold or any_rate):
        return None
    queues = {
        name: QueueState(paused is not None, as_limit(limit), as_number_us(tat_us), bool(groups))
        for name, paused, limit, tat_us, groups in (
            context.rows("claim_stops") if any_queue else ()
        )
        if is_text([name])
    }
    return Stops(queues, any_hold, any_rate)


def places(context: SqliteContext, queue: str, state: QueueState) -> int:
    """How many more jobs of this queue its limit lets start now."""
    limit = state.limit
    if limit is None:
        return MOST_HOLDERS
    if limit.concurrency is not None:
        state.running = context.value("claim_running", queue=queue)
    return gates.places(limit, state.running, state.tat_us, context.now)


def started(context: SqliteContext, queue: str, state: QueueState, starts: int) -> None:
    """So many jobs of this queue have started."""
    state.running += starts
    if state.limit is not None and state.limit.interval_us and starts:
        state.tat_us = gates.after_starts(state.limit, state.tat_us, context.now, starts)
        context.run("claim_queue_rate", queue=queue, tat_us=state.tat_us)


def next_start(state: QueueState, due: Moment | None, now: Moment) -> Moment | None:
    """When a queued job of this queue may start whose first job is due then, as far as the clock
    can tell."""
    limit = state.limit
    if due is None or limit is None:
        return due
    if limit.concurrency is not None and state.running >= limit.concurrency:
        return due if due > now else None  # the end of a run is a notification
    return max(due, gates.next_token_at(limit, state.tat_us, now)) if limit.interval_us else due


def set_limit(context: SqliteContext, queue: str, limit: StoredLimit | None) -> None:
    """Set or remove the limit of a queue."""
    tat_us = 0
    found = context.row("limit_of_queue", queue=queue)
    if found is not None and limit is not None and limit.interval_us:
        tat_us = gates.bounded_level(limit, as_number_us(found[1]), context.now)
    context.run("limit_queue", queue=queue, stored_limit=limit_text(limit), tat_us=tat_us)
    context.topics.add(queue)


def give_back(context: SqliteContext, claims: Iterable[Claim]) -> None:
    """These claims were not started: give the tokens of their queues back."""
    times: dict[str, list[Moment]] = {}
    for claim in claims:
        times.setdefault(claim.queue, []).append(claim.at)
    for queue, claimed in times.items():
        text, tat_us = context.row("limit_of_queue", queue=queue) or (None, 0)
        limit, tat_us = as_limit(text), as_number_us(tat_us)
        if limit is not None and limit.interval_us and tat_us:
            for at in claimed:
                returned_us = context.returned_us(limit, queue, None, at)
                tat_us = gates.given_back(tat_us, returned_us)
            context.run("claim_queue_rate", queue=queue, tat_us=tat_us)


def notify_limited(
    context: SqliteContext,
    stops: Stops | None,
    settlements: Sequence[Settlement],
    took: Sequence[bool],
) -> None:
    """A run that ends in a limited queue makes a place: notify the workers."""
    if stops is None:
        return
    limited = {name for name, state in stops.queues.items() if state.limit is not None}
    if limited:
        ended = zip(settlements, took, strict=True)
        context.topics |= {one.claim.queue for one, valid in ended if valid} & limited
