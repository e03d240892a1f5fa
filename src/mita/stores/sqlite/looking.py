"""Reading. None of this changes anything."""

from collections.abc import Sequence
from typing import Any

import msgspec

from mita.model.job import Job, State, WhenBusy
from mita.model.view import Holder, JobFilter, Page, QueueView, ResourceView, WorkerView
from mita.rules.states import TERMINAL

from .tx import Tx, as_json

_read_worker = msgspec.msgpack.Decoder(WorkerView).decode


def queues(tx: Tx) -> list[QueueView]:
    counts: dict[str, dict[str, Any]] = {name: {"paused": paused} for name, paused in tx.rows("queues")}
    for name, state, count in tx.rows("counts"):
        counts[name][state] = count
    for view in counts.values():
        view["scheduled"] = view.pop("queued", 0)
    for name, ready, oldest in tx.rows("ready", now=tx.now):
        counts[name].update(ready=ready, scheduled=counts[name]["scheduled"] - ready)
        counts[name]["oldest"] = None if oldest is None else tx.now - oldest
    return [QueueView(name=name, **view) for name, view in sorted(counts.items())]


def find(tx: Tx, ids: Sequence[str]) -> list[Job | None]:
    found = {job.id: job for job in map(_as_job, tx.rows("find", ids=as_json(ids)))}
    return [found.get(id) for id in ids]


def page(tx: Tx, want: JobFilter, after: str | None, limit: int) -> Page:
    clauses = _clauses(want)
    if after is not None:
        clauses.append("id < :after")
    where = " and ".join(clauses) or "true"
    values = {name: getattr(want, name) for name in JobFilter.__struct_fields__}
    values.update(after=after, now=tx.now, limit=limit + 1)
    text = tx.sql["page"].replace("{where}", where)
    jobs = [_as_job(row) for row in tx.connection.execute(text, values).fetchall()]
    return Page(jobs[:limit], jobs[limit - 1].id if len(jobs) > limit else None)


def _clauses(want: JobFilter) -> list[str]:
    """States are spelled out, not bound, so that the partial indexes can be used."""
    clauses = [f"{column} = :{name}" for name, column in _EQUAL.items() if getattr(want, name) is not None]
    if want.error is not None:
        clauses.append("instr(error, :error) > 0")
    state = State.QUEUED if want.scheduled is not None else want.state
    if state is not None:
        clauses.append(f"state = '{state.value}'")
    if state in TERMINAL:
        clauses.append("finished is not null")
    if want.scheduled is not None:
        clauses.append("due > :now" if want.scheduled else "due <= :now")
        if want.state not in (None, State.QUEUED):
            clauses.append("false")
    return clauses


_EQUAL = {"queue": "queue", "task": "task", "resource": "resource", "unique": "uniq", "repeat": "repeat"}


def _as_job(row: Any) -> Job:
    values = dict(zip(_FIELDS, row, strict=True))
    values["state"] = State(values["state"])
    values["when_busy"] = WhenBusy(values["when_busy"])
    return Job(**values)


_FIELDS = Job.__struct_fields__


def ahead(tx: Tx, id: str) -> int | None:
    found = tx.row("standing", id=id, now=tx.now)
    if found is None:
        return None
    state, due = found
    if state == State.BLOCKED:
        return int(tx.one("ahead_blocked", id=id))
    if state == State.QUEUED and due <= tx.now:
        return int(tx.one("ahead_ready", id=id, now=tx.now))
    return None


def workers(tx: Tx) -> list[WorkerView]:
    return [_read_worker(view) for (view,) in tx.rows("workers", now=tx.now)]


def resources(tx: Tx, queue: str | None, key: str | None) -> list[ResourceView]:
    holders: dict[tuple[str, str], list[Holder]] = {}
    for where, name, id, worker, since in tx.rows("holders", queue=queue, key=key):
        holders.setdefault((where, name), []).append(Holder(id, worker, since))
    waiting = {(where, name): count for where, name, count in tx.rows("waiting", queue=queue, key=key)}
    held = {(where, name): until for where, name, until in tx.rows("holds", queue=queue, key=key, now=tx.now)}
    return [
        ResourceView(
            queue=where,
            key=name,
            holders=tuple(holders.get((where, name), ())),
            waiting=waiting.get((where, name), 0),
            held_until=held.get((where, name)),
        )
        for where, name in sorted({*holders, *waiting, *held})
    ]
