"""The first page: is all well, how much is done, and which queues need a look."""

from collections.abc import Sequence

from starlette.responses import Response

from mita.model.view import QueueView
from mita.web.alerts import alerts
from mita.web.visit import Visit

SHOWN_STATES = ("ready", "running", "scheduled", "blocked", "waiting", "failed")


async def show(visit: Visit) -> Response:
    """Show the overview."""
    app, aged = visit.app, visit.site.aged
    queues = await aged.get("queues", app.queues)
    workers = await aged.get("workers", app.workers)
    repeats = await aged.get("repeats", app.repeats.all, fresh_s=5.0)
    return visit.render(
        "overview.html",
        queues=queues,
        workers=workers,
        totals=totals(queues.value or ()),
        alerts=alerts(queues.value or (), workers.value or (), repeats.value or (), visit.now),
    )


def totals(queues: Sequence[QueueView]) -> dict[str, int]:
    """How many jobs are in each state, in all queues."""
    return {state: sum(getattr(queue, state) for queue in queues) for state in SHOWN_STATES}
