"""Reading. None of this changes anything."""

from collections.abc import Sequence
from typing import Any

from mita.model.job import Job, State
from mita.model.time import Moment
from mita.model.view import Holder, JobFilter, Page, QueueView, ResourceView, WorkerView
from mita.stores.shared import sql
from mita.stores.shared.views import as_moment, as_name, as_worker, resource_views

from .context import Tx, as_json, is_text

_TRACE = """char(10) || '  File "'"""
_DIALECT = sql.Dialect(
    bound=":{}",
    now=":now",
    contains="instr",
    head=f"substr(error, 1, instr(error || {_TRACE}, {_TRACE}) - 1)",
)


def now(tx: Tx) -> Moment:
    """The store's time."""
    return tx.now


def queue_names(tx: Tx) -> list[str]:
    """The names that can be read, sorted."""
    return [name for name, _ in tx.rows("queues") if is_text([name])]


def queues(tx: Tx) -> list[QueueView]:
    """Three questions about one moment: a job that starts between two of them would be counted
    nowhere."""
    tx.connection.execute("begin")
    try:
        return _queues(tx)
    finally:
        tx.connection.execute("commit")


def _queues(tx: Tx) -> list[QueueView]:
    counts: dict[str, dict[str, Any]] = {
        as_name(name): {"paused": None if paused is None else as_moment(paused)}
        for name, paused in tx.rows("queues")
    }
    for name, state, count in tx.rows("counts"):
        counts.setdefault(as_name(name), {})[state] = count
    for view in counts.values():
        view["scheduled"] = view.pop("queued", 0)
    for name, ready, oldest in tx.rows("ready", now=tx.now):
        view = counts[as_name(name)]
        view.update(ready=ready, scheduled=view["scheduled"] - ready)
        view["oldest"] = None if oldest is None else tx.now - as_moment(oldest)
    return [QueueView(name=name, **view) for name, view in sorted(counts.items())]


def find(tx: Tx, ids: Sequence[str]) -> list[Job | None]:
    found = {job.id: job for job in map(sql.as_job, tx.rows("find", ids=as_json(ids)))}
    return [found.get(id) for id in ids]


def page(tx: Tx, want: JobFilter, after: str | None, limit: int) -> Page:
    text = tx.sql["page"].replace("{where}", sql.where(want, after, _DIALECT))
    rows = tx.connection.execute(text, {**sql.values(want, after, limit), "now": tx.now}).fetchall()
    return sql.as_page(rows, limit)


def ahead(tx: Tx, id: str) -> int | None:
    found = tx.row("standing", id=id, now=tx.now)
    if found is None:
        return None
    state, due = found
    if state == State.BLOCKED:
        return int(tx.one("ahead_blocked", id=id))
    if state == State.QUEUED and isinstance(due, int) and due <= tx.now:
        return int(tx.one("ahead_ready", id=id, now=tx.now))
    return None


def workers(tx: Tx) -> list[WorkerView]:
    return [
        view
        for (packed,) in tx.rows("workers", now=tx.now)
        if (view := as_worker(packed)) is not None
    ]


def resources(tx: Tx, queue: str | None = None, key: str | None = None) -> list[ResourceView]:
    holders: dict[tuple[str, str], list[Holder]] = {}
    for where, name, id, worker, since in tx.rows("holders", queue=queue, key=key):
        holder = Holder(
            as_name(id), None if worker is None else as_name(worker), since and as_moment(since)
        )
        holders.setdefault(_key(where, name), []).append(holder)
    waiting = {
        _key(where, name): count for where, name, count in tx.rows("waiting", queue=queue, key=key)
    }
    held = {
        _key(where, name): as_moment(until)
        for where, name, until in tx.rows("holds", queue=queue, key=key, now=tx.now)
    }
    return resource_views(holders, waiting, held)


def _key(queue: Any, key: Any) -> tuple[str, str]:
    return as_name(queue), as_name(key)
