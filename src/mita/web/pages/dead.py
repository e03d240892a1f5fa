"""The page of dead letters: failed jobs in groups of alike errors."""

import asyncio

from starlette.responses import Response

from mita.web.visit import Visit

_SHOWN_GROUPS = 100


async def show(visit: Visit) -> Response:
    """Show the groups, the largest first, with a sample of each."""
    queue, task = visit.query("queue"), visit.query("task")

    async def read() -> object:
        return await visit.app.dead_groups(queue=queue, task=task, limit=_SHOWN_GROUPS)

    groups, queues = await asyncio.gather(
        visit.site.aged.get(("dead", queue, task), read),
        visit.site.aged.get("queues", visit.queues),
    )
    return visit.render("dead.html", groups=groups, queues=queues, queue=queue, task=task)
