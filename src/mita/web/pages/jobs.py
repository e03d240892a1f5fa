"""The page of jobs: filters in the address, one page at a time, acts on the chosen ones."""

import asyncio
from collections import Counter

from starlette.responses import Response

from mita.client.filters import FILTERS
from mita.errors import MitaError, UsageError
from mita.model.outcome import Answer
from mita.model.record import JobPage
from mita.rules.words import counted
from mita.web.search import as_filters, as_id, as_text
from mita.web.visit import MOST_PAGE_JOBS, Visit

from .job_acts import ACTS, change_job
from .overview import totals

_PAGE_JOBS = 50


async def show(visit: Visit) -> Response:
    """Show a page of jobs. A search is turned into filters first, so that the address has them."""
    search = visit.query("q")
    if search is not None:
        return visit.go(await _found(visit, search))
    filters = chosen_filters(visit)
    after, limit = visit.query("after"), visit.number("limit", _PAGE_JOBS, MOST_PAGE_JOBS)

    async def read() -> JobPage:
        return await visit.app.jobs(**filters, after=after, limit=limit)

    page, queues = await asyncio.gather(
        visit.site.aged.get(("jobs", after, limit, *filters.items()), read),
        visit.site.aged.get("queues", visit.queues),
    )
    one = [queue for queue in queues.value or () if queue.name == filters.get("queue")]
    return visit.render(
        "jobs.html",
        page=page.value or JobPage(()),
        is_searching=page.value is None,
        filters=filters,
        search=as_text(filters),
        queues=queues,
        counts=totals(one if "queue" in filters else queues.value or ()),
        acts=[act for act in ACTS.values() if act.is_for_many and visit.may(act.role)],
    )


def chosen_filters(visit: Visit) -> dict[str, str]:
    """The filters that the address has."""
    found = {name: visit.query(name) for name in FILTERS}
    return {name: value for name, value in found.items() if value is not None}


async def _found(visit: Visit, search: str) -> str:
    """The address of what was searched for: a job, if it is the id of one, or a page of jobs."""
    id = as_id(search) or search.strip()
    try:
        if " " not in id and ":" not in id and await visit.app.get(id) is not None:
            return visit.url(f"/jobs/{id}")
    except UsageError:
        pass  # it is no id
    if (start := as_id(search)) is not None:
        page = await visit.app.jobs(after=f"{start}g", limit=1)  # g comes after all digits
        if page.jobs and page.jobs[0].id.startswith(start):
            return visit.url(f"/jobs/{page.jobs[0].id}")
    return visit.url("/jobs", **as_filters(search))


async def act(visit: Visit) -> Response:
    """Change the jobs that are ticked, one after the other."""
    sent = await visit.form()
    ids, verb = sent.all("id"), sent.get("act")
    if not ids:
        raise UsageError("no job is ticked: tick the jobs to change, then choose what to do")
    if len(ids) > MOST_PAGE_JOBS:
        raise UsageError(f"{len(ids)} jobs are ticked: {MOST_PAGE_JOBS} at most")
    answers: Counter[str] = Counter()
    with visit.acting(sent.get("reason")):
        for id in ids:
            try:
                answers[await change_job(visit, id, verb, sent)] += 1
            except MitaError:
                answers[Answer.UNKNOWN] += 1
    parts = [f"{counted(n, 'job')} {answer}" for answer, n in answers.most_common()]
    return visit.done(f"{ACTS[verb].label}: {', '.join(parts)}.")
