"""The page of queues: counts, pause, limits."""

import asyncio

from starlette.responses import Response

from mita.errors import UsageError
from mita.model.limits import stored_limit
from mita.rules.display import limit_text
from mita.web.fields import limit_fields
from mita.web.visit import Form, Visit

ACTS = ("pause", "resume", "limit", "unlimit")


async def show(visit: Visit) -> Response:
    """Show all queues."""
    aged = visit.site.aged
    queues, workers = await asyncio.gather(
        aged.get("queues", visit.app.queues), aged.get("workers", visit.app.workers)
    )
    served: dict[str, int] = {}
    for worker in workers.value or ():
        for name in worker.queues:
            served[name] = served.get(name, 0) + 1
    serve_all = sum(not worker.queues for worker in workers.value or ())
    return visit.render("queues.html", queues=queues, served=served, serve_all=serve_all)


async def act(visit: Visit) -> Response:
    """Pause, resume or limit a queue."""
    sent = await visit.form()
    queue, verb = sent.get("queue"), sent.get("act")
    with visit.acting(sent.get("reason")):
        match verb:
            case "pause":
                await visit.app.pause(queue)
                return visit.done(f"Queue {queue} is paused: running jobs end, no others start.")
            case "resume":
                await visit.app.resume(queue)
                return visit.done(f"Queue {queue} starts jobs again.")
            case "limit":
                return visit.done(await _limit(visit, queue, sent))
            case "unlimit":
                await visit.app.limit_queue(queue)
                return visit.done(f"Queue {queue} has no limit any more.")
    raise UsageError(f"act={verb!r}: use one of {', '.join(ACTS)}")


async def _limit(visit: Visit, queue: str, sent: Form) -> str:
    concurrency, rate = limit_fields(sent)
    await visit.app.limit_queue(queue, concurrency=concurrency, rate=rate)
    return f"Queue {queue} is limited: {limit_text(stored_limit(concurrency, rate))}."
