"""The page of workers: what each runs, its version, its clock and its last heartbeat."""

import asyncio
from collections import Counter, defaultdict
from collections.abc import Iterable

from starlette.responses import Response

from mita.model.record import JobRecord
from mita.rules.display import as_datetime
from mita.web.alerts import CLOCK_OFF_MS
from mita.web.visit import Visit

_RUNNING_JOBS = 200  # that are read, of all workers together
_SHOWN_JOBS = 10  # of one worker
_LATE_S = 25  # by default a worker tells every 10 s that it is alive


async def show(visit: Visit) -> Response:
    """Show the workers that are alive, with the jobs that they run."""

    async def running() -> tuple[JobRecord, ...]:
        return (await visit.app.jobs(state="running", limit=_RUNNING_JOBS)).jobs

    aged = visit.site.aged
    workers, jobs = await asyncio.gather(
        aged.get("workers", visit.app.workers), aged.get("running", running)
    )
    versions = Counter(view.version for view in workers.value or ())
    return visit.render(
        "workers.html",
        workers=workers,
        jobs=_by_worker(jobs.value or ()),
        is_whole=len(jobs.value or ()) < _RUNNING_JOBS,
        versions=versions,
        shown_jobs=_SHOWN_JOBS,
        clock_off_ms=CLOCK_OFF_MS,
        late_s=_LATE_S,
        as_datetime=as_datetime,
    )


def _by_worker(jobs: Iterable[JobRecord]) -> dict[str, list[JobRecord]]:
    found: dict[str, list[JobRecord]] = defaultdict(list)
    for job in jobs:
        found[job.worker or ""].append(job)
    return dict(found)
