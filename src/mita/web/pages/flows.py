"""The page of flows, newest first."""

from functools import partial

from starlette.responses import Response

from mita.web.visit import Visit

_PAGE_FLOWS = 30
_MOST_PAGE_FLOWS = 100


async def show(visit: Visit) -> Response:
    """Show a page of flows."""
    after = visit.query("after")
    limit = visit.number("limit", _PAGE_FLOWS, _MOST_PAGE_FLOWS)
    read = partial(visit.app.flows, after=after, limit=limit)
    found = await visit.site.aged.get(("flows", after, limit), read)
    return visit.render("flows.html", found=found)
