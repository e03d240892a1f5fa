"""The page of one job: its state, why it does not run, its timeline, and everything about it."""

from starlette.responses import Response

from mita.model.job import PRIORITIES
from mita.model.record import DisplayState, JobRecord
from mita.rules.flow import FLOW_TASKS
from mita.web.remedies import remedy_of
from mita.web.visit import NotHere, Visit

from .job_acts import ACTS, ANSWERS, change_job

COUNTERS = ("attempts", "reschedules", "busy", "interruptions", "crashes")


async def show(visit: Visit) -> Response:
    """Show a job."""
    job = await found_job(visit)
    if job.task in FLOW_TASKS:
        return visit.go(visit.url(f"/flows/{job.id}"))
    reasons = await visit.site.aged.get(("why", job.id), lambda: visit.app.explain(job.id))
    return visit.render(
        "job.html",
        job=job,
        reasons=[(reason, remedy_of(reason)) for reason in reasons.value or ()],
        is_asking=job.state not in (DisplayState.SUCCEEDED, DisplayState.RUNNING),
        acts=[
            act
            for act in ACTS.values()
            if job.state in act.states and visit.may(act.role) and act.is_for_many
        ],
        ACTS=ACTS,
        PRIORITIES=PRIORITIES,
        flow=flow_of(job.id),
        counters={name: getattr(job, name) for name in COUNTERS if getattr(job, name)},
    )


async def found_job(visit: Visit) -> JobRecord:
    """The job of the address. Raises `NotHere` if there is none."""
    job = await visit.app.get(visit.part("id"))
    if job is None:
        raise NotHere("There is no such job: it never was, or it ended and was deleted.")
    return job


def flow_of(id: str) -> str | None:
    """The id of the flow or of the parent of a job; None for a job by itself."""
    above, point, _ = id.rpartition(".")
    return above if point else None


async def act(visit: Visit) -> Response:
    """Change the job."""
    sent = await visit.form()
    verb = sent.get("act")
    with visit.acting(sent.get("reason")):
        answer = await change_job(visit, visit.part("id"), verb, sent)
    then = visit.url("/jobs") if verb == "delete" and answer == "done" else None
    return visit.done(f"{ACTS[verb].label}: {ANSWERS[answer]}.", then)
