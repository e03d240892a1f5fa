"""The addresses of all pages, made from the table of routes and what is in the store."""

import re
from collections.abc import Iterator
from typing import Any

from mita import Mita
from mita.model.record import DisplayState
from mita.rules.flow import FLOW_TASKS
from mita.web.routes import ROUTES, Route

_PART = re.compile(r"\{(\w+)(?::\w+)?\}")
NOT_PAGES = ("/static/{name}", "/live", "/login")


def sample(app: Mita) -> dict[str, str]:
    """Something in the store for each part of an address: `flows/{id}` is the id of a flow. The
    key of the answer is the path until the part."""
    job = next(iter(app.jobs_sync(state="failed", task="charge_card", limit=1).jobs), None)
    job = job or app.jobs_sync(limit=1).jobs[0]
    flows = app.flows_sync(limit=1).flows
    repeats = app.repeats.all_sync()
    found = {
        "/static/{name}": "mita.css",
        "/jobs/{id}": job.id,
        "/flows/{id}": flows[0].id if flows else "none",
        "/repeats/{key}": repeats[0].key if repeats else "none",
    }
    for name, read in (("dead", "dead_groups_sync"), ("bulk", "bulks_sync")):
        found.update(_first(app, name, read))
    return found


def _first(app: Mita, name: str, read: str) -> dict[str, str]:
    """What the app has of something, if this version of it has that."""
    answer: Any = getattr(app, read, tuple)()
    items = getattr(answer, "bulks", answer)
    first = items[0] if items else None
    value = getattr(first, "group", None) or getattr(first, "id", None) or "none"
    return {f"/{name}/{{group}}": value, f"/{name}/{{id}}": value}


def address(route: Route, samples: dict[str, str]) -> str:
    """The address of a route, with the samples for its parts."""

    def fill(found: re.Match[str]) -> str:
        until = f"{route.path[: found.start()]}{{{found[1]}}}"
        assert until in samples, f"tests/web/addresses.py has no sample for {until}"
        return samples[until]

    return _PART.sub(fill, route.path)


def pages() -> list[Route]:
    """The routes that show a page to people."""
    return [route for route in ROUTES if route.method == "GET" and route.path not in NOT_PAGES]


def page_addresses(app: Mita, *, every: bool = False) -> Iterator[str]:
    """Every page, the page of a job in each state, and a flow that runs. `every`: also each flow,
    and the jobs of each state."""
    samples = sample(app)
    for route in pages():
        yield address(route, samples)
    for state in DisplayState:
        jobs = app.jobs_sync(state=state, limit=20).jobs
        for job in [job for job in jobs if job.task not in FLOW_TASKS][:1]:
            yield f"/jobs/{job.id}"
        if every:
            yield f"/jobs?state={state.value}"
    for job in app.jobs_sync(task="refund", limit=1).jobs:
        yield f"/jobs/{job.id}"
    for flow in app.flows_sync(limit=10).flows:
        if every or flow.name == "month-end":
            yield f"/flows/{flow.id}"
    yield "/bulk/new?verb=amend&state=failed"
    yield "/?range=24h"
    yield "/repeats?cron=0+9+*+*+MON-FRI"
    yield "/jobs?queue=nowhere"
    yield "/nothing-here"
