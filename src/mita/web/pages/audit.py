"""The page of the audit log: who changed what, when and why."""

import re
from collections.abc import Iterator
from typing import NamedTuple

from starlette.responses import Response

from mita.model.audit import AuditLine
from mita.web.visit import MOST_PAGE_JOBS, Visit

_PAGE_ENTRIES = 50
_ONE = re.compile(r"(job|flow) ([\w.-]+)(.*)", re.DOTALL)
_QUEUES = re.compile(r"(queues? )([\w.-]+(?:, [\w.-]+)*)(.*)", re.DOTALL)
_PAGES = {"job": "/jobs", "flow": "/flows"}


class TargetPart(NamedTuple):
    """A part of a target, and the address of the page that it leads to; empty if it leads to
    none."""

    text: str
    address: str = ""


async def show(visit: Visit) -> Response:
    """Show a page of the log, newest first."""
    page = await visit.app.audit(
        after=visit.query("after"),
        limit=visit.number("limit", _PAGE_ENTRIES, MOST_PAGE_JOBS),
        who=visit.query("who"),
        what=visit.query("what"),
        target=visit.query("target"),
    )
    entries = [(entry, list(_target(visit, entry))) for entry in page.entries]
    return visit.render("audit.html", entries=entries, after=page.after)


def _target(visit: Visit, entry: AuditLine) -> Iterator[TargetPart]:
    """The target of an entry: jobs, flows, queues and bulk runs lead to their pages."""
    if found := _ONE.fullmatch(entry.target):
        kind, id, rest = found.groups()
        yield TargetPart(f"{kind} ")
        yield TargetPart(id, visit.url(f"{_PAGES[kind]}/{id}"))
        yield TargetPart(rest)
    elif found := _QUEUES.fullmatch(entry.target):
        yield TargetPart(found[1])
        for number, queue in enumerate(found[2].split(", ")):
            yield TargetPart(", " if number else "")
            yield TargetPart(queue, visit.url("/jobs", queue=queue))
        yield TargetPart(found[3])
    else:
        yield TargetPart(entry.target)
    run = entry.details.get("id")
    if isinstance(run, str) and entry.target.startswith("jobs:"):
        yield TargetPart(", ")
        yield TargetPart("bulk run", visit.url(f"/bulk/{run}"))
