"""Finds the few jobs of a state or a queue by their index. A page goes by id, newest first: among
many other jobs it would look at all of them to find a few."""

from mita.model.job import State
from mita.model.view import JobFilter
from mita.rules.matching import stored_state
from mita.stores.sqlite.context import SqliteContext

FEW_JOBS = 2_000  # more are soon met on the way, newest first

_OF_STATE = {
    State.RUNNING: "page_few_running",
    State.BLOCKED: "page_few_blocked",
    State.FAILED: "page_few_failed",
}


def few_jobs(context: SqliteContext, want: JobFilter) -> list[int] | None:
    """The numbers (`seq`) of all jobs in the wanted state (running, blocked or failed), or else in
    the wanted queue; None if they are many, or if neither is wanted."""
    state = want.state if want.shown is None else stored_state(want.shown)
    name = _OF_STATE.get(state) if state is not None else None
    if name is None and want.queue is None:
        return None
    rows = context.rows(name or "page_few_of_queue", queue=want.queue, most=FEW_JOBS + 1)
    return None if len(rows) > FEW_JOBS else [seq for (seq,) in rows]
