"""Why a job of a flow does not run: it waits for other steps, or was cancelled because of one."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from msgspec.structs import replace

from mita.model.job import State
from mita.model.record import DisplayState
from mita.rules.display import clock
from mita.rules.flow import FLOW_TASKS, GATHER_TASK

from .evidence import Evidence, FlowCause, FlowWait, NearStep, Reason, ReasonCode, advise

# how a step is described; all others with `is`
_HOW = {
    None: "is gone",
    DisplayState.SUCCEEDED: "has succeeded",
    DisplayState.FAILED: "has failed",
    DisplayState.CANCELLED: "was cancelled",
}


def step_reasons(evidence: Evidence, wait: FlowWait) -> Iterator[Reason]:
    """It waits for steps: which these are, and for the nearest why they do not run. Steps with the
    same reason are named together."""
    yield _waits(evidence, wait)
    alike: dict[str, list[NearStep]] = {}
    for step in wait.near:
        key = step.id if step.reason is None else str(step.reason)
        alike.setdefault(key, []).append(step)
    for steps in alike.values():
        yield _near(evidence, wait, steps[0], ", ".join(step.name for step in steps))


def _waits(evidence: Evidence, wait: FlowWait) -> Reason:
    is_flow = evidence.job.task in FLOW_TASKS - {GATHER_TASK}
    who = f"flow {wait.flow_name!r}" if is_flow and wait.flow_name else "it"
    least = "" if wait.is_exact else "at least "
    named = ", ".join(
        f"{step.name} {_HOW.get(step.state, f'is {step.state}')}" for step in wait.first
    )
    more = wait.pending - len(wait.first)
    rest = f", and {more:,} more" if more else ""
    return Reason(
        ReasonCode.WAITS_FOR_STEPS,
        f"{who} waits for {least}{wait.pending:,} of {wait.total:,} steps: {named}{rest}",
        evidence={
            "pending": wait.pending,
            "total": wait.total,
            "exact": wait.is_exact,
            "steps": [step.id for step in wait.first],
        },
    )


def _near(evidence: Evidence, wait: FlowWait, step: NearStep, names: str) -> Reason:
    """Why a step that is waited for does not run; `names` are this one and others like it."""
    found = {"step": step.number, "id": step.id}
    if step.added is not None:
        return Reason(
            ReasonCode.WAITS_FOR_STEPS,
            f"{step.name} has added steps that have not ended",
            evidence={**found, "added": step.added},
            **advise("ask about them", "why", step.added),
        )
    if step.reason is not None:
        text = f"{names}: {step.reason.text}"
        return replace(step.reason, text=text, evidence={**step.reason.evidence, **found})
    if step.state is DisplayState.WAITING:
        text = f"{step.name} waits for other steps, too"
        helps = advise("ask about that step", "why", step.id)
        return Reason(ReasonCode.WAITS_FOR_STEPS, text, evidence=found, **helps)
    then = "at its next look" if wait.patrol is None else f"at {clock(wait.patrol, evidence.now)}"
    if step.state is None:
        text = f"{step.name} is gone: the flow notices that {then}"
        return Reason(ReasonCode.STEP_GONE, text, evidence=found)
    how = _HOW.get(step.state, "")
    text = f"{step.name} {how}, and the jobs after it were not told: the flow does that {then}"
    return Reason(ReasonCode.WAITS_FOR_STEPS, text, evidence=found)


# ---------------------------------------------------------------- it is over


def cancelled_because(cause: FlowCause, when: str, found: Mapping[str, Any]) -> Reason:
    """It was cancelled because a step that it waited for failed or was cancelled."""
    step = f"step {cause.number} ({cause.task})"
    how = f"failed: {cause.error}" if cause.state is State.FAILED else "was cancelled"
    if cause.failed > 1:
        step = f"{cause.failed:,} steps failed, among them step {cause.number} ({cause.task})"
        how = cause.error
        text = f"it was cancelled{when}, because {step}: {how}"
    else:
        text = f"it was cancelled{when}, because {step} {how}"
    return Reason(
        ReasonCode.CANCELLED,
        text,
        evidence={**found, "step": cause.number, "id": cause.id, "error": cause.error},
        **_retry(cause),
    )


def _retry(cause: FlowCause) -> dict[str, Any]:
    first = "correct the cause, then " if cause.state is State.FAILED else ""
    if cause.failed > 1:
        advice = f"{first}run the failed steps again, and what follows from them"
        return advise(advice, "retry", cause.flow)
    advice = f"{first}run that step again, which brings this one back"
    return advise(advice, "retry", cause.id)


def failed_steps(causes: Sequence[FlowCause]) -> Iterator[Reason]:
    """Some of the steps because of which a flow failed."""
    for cause in causes:
        yield Reason(
            ReasonCode.STEP_FAILED,
            f"step {cause.number} ({cause.task}) failed: {cause.error}",
            evidence={"step": cause.number, "id": cause.id, "error": cause.error},
            **advise("look at it", "show", cause.id),
        )
