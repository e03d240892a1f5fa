"""The first page: is all well, how much is done, and which queues need a look."""

import asyncio
from collections.abc import Sequence
from datetime import timedelta

from starlette.responses import Response

from mita.model.history import HistoryPoint
from mita.model.view import QueueView
from mita.web.aged import Aged
from mita.web.alerts import alerts
from mita.web.throughput import RANGES, Range, bar_times, by_queue, chart_series, range_of
from mita.web.visit import Visit

SHOWN_STATES = ("ready", "running", "scheduled", "blocked", "waiting", "failed")
_FRESH_S = 2.0  # workers add their runs every two seconds


async def show(visit: Visit) -> Response:
    """Show the overview."""
    app, aged = visit.app, visit.site.aged
    chosen = range_of(visit.query("range"))
    queues, workers, repeats, points, hour = await asyncio.gather(
        aged.get("queues", visit.queues),
        aged.get("workers", app.workers),
        aged.get("repeats", app.repeats.all, fresh_s=5.0),
        _history(visit, chosen),
        _history(visit, RANGES["1h"]),
    )
    times = bar_times(chosen, visit.now)
    return visit.render(
        "overview.html",
        ranges=RANGES.values(),
        chosen=chosen,
        times=times,
        series=chart_series(points.value or (), times, chosen.each),
        runs=by_queue(hour.value or (), visit.now),
        queues=queues,
        workers=workers,
        totals=totals(queues.value or ()),
        alerts=alerts(queues.value or (), workers.value or (), repeats.value or (), visit.now),
    )


async def _history(visit: Visit, chosen: Range) -> Aged[tuple[HistoryPoint, ...]]:
    async def read() -> tuple[HistoryPoint, ...]:
        since = bar_times(chosen, visit.now)[0]
        return await visit.app.history(since=since, by=chosen.by)

    fresh_s = max(_FRESH_S, chosen.each / timedelta(minutes=1))
    return await visit.site.aged.get(("history", chosen.name), read, fresh_s=fresh_s)


def totals(queues: Sequence[QueueView]) -> dict[str, int]:
    """How many jobs are in each state, in all queues."""
    return {state: sum(getattr(queue, state) for queue in queues) for state in SHOWN_STATES}
