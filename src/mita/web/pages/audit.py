"""The page of the audit log: who changed what, when and why."""

from starlette.responses import Response

from mita.web.visit import MOST_PAGE_JOBS, Visit

_PAGE_ENTRIES = 50


async def show(visit: Visit) -> Response:
    """Show a page of the log, newest first."""
    page = await visit.app.audit(
        after=visit.query("after"),
        limit=visit.number("limit", _PAGE_ENTRIES, MOST_PAGE_JOBS),
        who=visit.query("who"),
        what=visit.query("what"),
        target=visit.query("target"),
    )
    return visit.render("audit.html", page=page)
