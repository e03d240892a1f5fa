"""Keeping the place in order."""

from itertools import islice

from msgspec.structs import replace

from mita.model.job import State
from mita.model.time import Moment, Wait
from mita.model.view import Finding, Health, WorkerView

from .context import Act, Presence, Record


def pause(act: Act, queue: str) -> None:
    if act.state.queues.get(queue) is None:
        act.state.queues[queue] = act.now


def resume(act: Act, queue: str) -> None:
    if act.state.queues.get(queue) is not None:
        act.state.queues[queue] = None
        act.rings.add(queue)


def beat(act: Act, worker: WorkerView, keep: Wait) -> Moment:
    act.state.workers[worker.id] = Presence(replace(worker, seen=act.now), act.now + keep)
    return act.now


def prune(act: Act, limit: int, most: int) -> int:
    expired = sorted(
        (record for record in act.state.records.values() if _over(act, record.job.expires)),
        key=lambda record: (record.job.expires, record.age),
    )
    gone = _forget(act, expired, limit)
    for queue in sorted(act.state.queues):
        gone += _forget(act, _beyond(act, queue, most), limit - gone)
    _forget_the_rest(act)
    return gone


def _over(act: Act, until: Moment | None) -> bool:
    return until is not None and until <= act.now


def _beyond(act: Act, queue: str, most: int) -> list[Record]:
    """The succeeded jobs of a queue, newest first, without the first `most`."""
    done = [
        r
        for r in act.state.records.values()
        if r.job.queue == queue and r.job.state is State.SUCCEEDED
    ]
    done.sort(key=lambda record: (record.job.finished or 0, record.age), reverse=True)
    return done[most:]


def _forget(act: Act, records: list[Record], most: int) -> int:
    going = list(islice(records, most))
    for record in going:
        act.forget(record)
    return len(going)


def _forget_the_rest(act: Act) -> None:
    """Memos, reservations, workers and locks whose time is over. They are not counted as jobs."""
    state = act.state
    state.shared = {name: memo for name, memo in state.shared.items() if not _over(act, memo.until)}
    state.unique = {key: held for key, held in state.unique.items() if not _over(act, held.until)}
    state.locks = {name: held for name, held in state.locks.items() if not _over(act, held.until)}
    state.workers = {
        id: presence for id, presence in state.workers.items() if not _over(act, presence.until)
    }


def doctor(act: Act) -> list[Finding]:
    return [
        Finding(
            "durability",
            "memory: everything is gone when the process ends",
            Health.WARN,
            "fit for tests; use a sqlite:// URL to keep jobs",
        ),
        Finding("jobs", f"{len(act.state.records)} in memory"),
    ]
