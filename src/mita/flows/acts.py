"""What people ask of jobs that are in flows: cancel, retry and delete, and what follows from it.

The jobs of a flow that run no code of the user stand for the flow: to cancel or retry one of them
is to cancel or retry the flow."""

from collections.abc import Iterable, Sequence

from msgspec import Struct

from mita.events.signals import Amended
from mita.model.job import Job, State
from mita.model.outcome import Answer, CancelJob, Change, DeleteJob, RescheduleJob, RetryJob
from mita.model.time import Wait
from mita.ports.clock import wall_clock
from mita.ports.store import Store
from mita.rules.durable import WAIT
from mita.rules.flow import FLOW_TASKS, GATHER_TASK, child_of_signal, step_id
from mita.rules.flow_plan import FlowSpec, counter_groups
from mita.rules.flow_retries import LOST
from mita.rules.states import ALIVE, DEAD

from .arrivals import read_values
from .cancels import cancel, cancel_children, may_have_children
from .delivery import conclude_and_wake, tell_counters
from .ended import cancelled_job, ended_job, is_step, place_of
from .parts import find_spec, parts_of, steps_of
from .retries import DeadStep, dead_step, downstream, note_steps, retry_flow, revive


class FlowCancel(Struct):
    """What a cancel of a flow did: how many steps were cancelled (`done`), how many are running and
    were `asked` to stop, and the `changes` for events."""

    done: int = 0
    asked: int = 0
    changes: list[Amended] = []


class Acts(Struct):
    """What was done to some jobs: an answer for each, and what `followed` for other jobs."""

    answers: list[Answer]
    followed: list[Amended] = []


def concerns_flows(job: Job, change: Change) -> bool:
    """Whether more follows from this change of a job than the change itself. A job without a place
    in a flow may have children if it was put back before."""
    if is_step(job.id) or job.task in FLOW_TASKS:
        return True
    return isinstance(change, CancelJob | RetryJob | RescheduleJob) and may_have_children(job)


async def amend_jobs(store: Store, jobs: Sequence[Job], change: Change, keep: Wait) -> Acts:
    """Change these jobs as `Store.amend` does, with everything that follows from it in flows.
    `keep` is how long jobs are kept that are cancelled because of it."""
    match change:
        case CancelJob():
            return await _cancel(store, jobs, change)
        case RetryJob():
            return await _retry(store, jobs, change)
        case RescheduleJob():
            return await _reschedule(store, jobs, change)
        case DeleteJob():
            # a success has told its dependants before it was settled, and steps that it has added
            # may still run
            dead = [job for job in jobs if job.state in DEAD]
            ended = [one for one in map(ended_job, dead) if one is not None]
            followed = await conclude_and_wake(store, ended, keep)
            await note_steps(store, LOST, [one for one in map(dead_step, dead) if one is not None])
            return Acts(await store.amend([job.id for job in jobs], change), followed)
        case _:
            return Acts(await store.amend([job.id for job in jobs], change))


# ---------------------------------------------------------------- cancel


async def _cancel(store: Store, jobs: Sequence[Job], change: CancelJob) -> Acts:
    others = [job for job in jobs if _flow_of_own_job(job) is None]
    given = await store.amend([job.id for job in others], change) if others else []
    answers = {job.id: answer for job, answer in zip(others, given, strict=True)}
    done = [job for job in others if answers[job.id] is Answer.DONE]
    followed = await cancel_children(store, _parents(done), change.keep)
    ended = [one for job in done for one in cancelled_job(job)]
    followed += await conclude_and_wake(store, ended, change.keep)
    for job in jobs:
        flow = _flow_of_own_job(job)
        if flow is not None:
            answers[job.id] = await _cancel_by_own_job(store, job, flow, change, followed)
    return Acts([answers[job.id] for job in jobs], followed)


def _parents(jobs: Iterable[Job]) -> list[str]:
    return [job.id for job in jobs if may_have_children(job)]


def _flow_of_own_job(job: Job) -> str | None:
    """The flow for which this job stands; None for a job of the user."""
    if job.task not in FLOW_TASKS:
        return None
    place = place_of(job)
    return job.id if job.task != GATHER_TASK else None if place is None else place.flow


async def _cancel_by_own_job(
    store: Store, job: Job, flow: str, change: CancelJob, followed: list[Amended]
) -> Answer:
    """Cancel the flow for which this job stands. It has ended then, unless some of its steps
    run."""
    if job.state not in ALIVE:
        return Answer.TOO_LATE
    spec = await find_spec(store, flow)
    if spec is None:  # nothing is left for which it could stand
        [answer] = await store.amend([job.id], change)
        return answer
    what = await cancel_flow(store, flow, spec, change)
    followed += what.changes
    if what.asked:
        return Answer.ASKED
    ids = [
        step_id(part.flow, number)
        for part in await parts_of(store, flow, spec)
        for number in (*counter_groups(part.spec.steps, part.spec.first_counter)[0], 0)
    ]
    own: list[Amended] = []
    ended = await cancel(store, ids, change.reason, change.keep, own)
    followed += [one for one in own if one.id != job.id]
    followed += await conclude_and_wake(store, ended, change.keep)
    if job.task != GATHER_TASK and all(one.id != job.id for one in own):
        return Answer.ASKED  # a worker runs it just now, and ends it
    return Answer.DONE


async def cancel_flow(store: Store, flow: str, spec: FlowSpec, change: CancelJob) -> FlowCancel:
    """Cancel all steps of a flow that have not ended, also steps that were added to it. The flow
    ends when running steps have stopped."""
    what = FlowCancel()
    for part in await parts_of(store, flow, spec):
        async for jobs in steps_of(store, part.flow, range(1, part.spec.first_counter)):
            await _cancel_steps(store, jobs, change, what)
    return what


async def _cancel_steps(
    store: Store, jobs: Iterable[Job | None], change: CancelJob, what: FlowCancel
) -> None:
    """Cancel these steps, except steps that have ended. Adds what was done to `what`."""
    alive = [job for job in jobs if job is not None and job.state in ALIVE]
    answers = await store.amend([job.id for job in alive], change) if alive else []
    now, done = wall_clock(), list[Job]()
    for job, answer in zip(alive, answers, strict=True):
        if answer in (Answer.DONE, Answer.ASKED):
            what.changes.append(Amended(job.id, change, answer, now, job.task, job.queue))
        if answer is Answer.DONE:
            done.append(job)
        if job.task != GATHER_TASK:  # it is no step
            what.done += answer is Answer.DONE
            what.asked += answer is Answer.ASKED
    what.changes += await cancel_children(store, _parents(done), change.keep)
    # their dependants are cancelled here, too: only the counters are told
    await tell_counters(store, [one for job in done for one in cancelled_job(job)])


# ---------------------------------------------------------------- retry


async def _retry(store: Store, jobs: Sequence[Job], change: RetryJob) -> Acts:
    """Retry jobs, each step with the steps that were cancelled because of it, and each parent with
    the child whose failure was its own."""
    children = await _failed_children(store, jobs)
    if children:
        await _retry(store, children, change)
    flows: dict[str, list[DeadStep]] = {}
    whole: dict[str, list[str]] = {}
    for job in jobs:
        own = _flow_of_own_job(job) if job.state in DEAD else None
        if own is not None:
            whole.setdefault(own, []).append(job.id)
        elif dead := dead_step(job):
            flows.setdefault(dead.place.flow, []).append(dead)
    answers: dict[str, Answer] = {}
    reports: list[Amended] = []
    for flow, ids in whole.items():
        spec = await find_spec(store, flow)
        if spec is not None:
            answers |= await retry_flow(store, flow, spec, change.note, reports)
            answers |= dict.fromkeys(ids, Answer.DONE)
    for flow, steps in flows.items():
        answers |= await revive(store, flow, await downstream(store, steps), change, reports)
    rest = [job.id for job in jobs if job.id not in answers]
    answers |= zip(rest, await store.amend(rest, change) if rest else (), strict=True)
    asked_for = {job.id for job in jobs}
    followed = [one for one in reports if one.id not in asked_for]
    return Acts([answers[job.id] for job in jobs], followed)


async def _failed_children(store: Store, jobs: Sequence[Job]) -> list[Job]:
    """The children that these failed jobs did not survive: their errors name them. Failures that a
    handler has caught are part of what it did, and stay."""
    ids: list[str] = []
    parents = [job for job in jobs if job.state is State.FAILED and may_have_children(job)]
    values = await read_values(store, [job.id for job in parents])
    for job, names in zip(parents, values, strict=True):
        waits = [name.removeprefix(WAIT) for name in names if name.startswith(WAIT)]
        error = (job.error or "").partition("\n")[0]
        ids += [id for id in set(map(child_of_signal, waits)) if f"job {id} " in error]
    found = await store.find(ids) if ids else []
    return [job for job in found if job is not None and job.state in DEAD]


async def _reschedule(store: Store, jobs: Sequence[Job], change: RescheduleJob) -> Acts:
    """Reschedule jobs. Failed and cancelled jobs are retried."""
    dead = [job for job in jobs if job.state in DEAD]
    alive = [job.id for job in jobs if job.state not in DEAD]
    retried = await _retry(store, dead, RetryJob(change.when, change.note)) if dead else Acts([])
    answers = iter(await store.amend(alive, change) if alive else ())
    again = iter(retried.answers)
    return Acts([next(again if job.state in DEAD else answers) for job in jobs], retried.followed)
