"""Steps that a running handler has added to its flow.

They are a flow of their own, and its own job tells the counter of the adder when they have ended.
They are stored when the run succeeds, and wait for their adder. Then the counter of the adder is
told of them: from then on the adder has succeeded, whatever happens to its worker. If the worker
dies before that, the handler runs again. The own job of the steps finds that no counter knows of
them, and removes them."""

from msgspec.structs import replace

from mita.errors import Rejected
from mita.events import Emit
from mita.events.signals import Enqueued
from mita.model.ending import Raised, Returned
from mita.model.flow import AddedSteps, Addition, FlowPlace
from mita.model.outcome import Answer, Settlement, SignalJob
from mita.model.time import Wait
from mita.ports.clock import wall_clock
from mita.ports.store import Store
from mita.rules.claim_size import CALL_JOBS
from mita.rules.flow import added_signal, pack_addition, step_id
from mita.rules.flow_plan import FlowSpec, counter_groups
from mita.rules.judge import Retention, judge
from mita.rules.options import options_of
from mita.rules.states import TERMINAL

from .arrivals import arrive
from .cancels import cancel
from .delivery import addition_arrivals, addition_of

_FLOW_GONE = (
    "FlowGone: the flow has ended or was deleted, so that no steps can be added to it: begin a new "
    "flow (app.flow)"
)


async def store_added(
    store: Store, settlement: Settlement, added: AddedSteps, keep: Retention, emit: Emit
) -> Settlement:
    """Store the steps that a successful run has added, and tell its counter of them. Returns the
    settlement with the addition that stands: an earlier run that lost its lease may have told the
    counter first, and then its result stands, too."""
    claim = settlement.claim
    place = options_of(claim.options).flow
    if place is None or place.counter is None:
        return _failed(settlement, _FLOW_GONE, keep)
    try:
        await _enqueue(store, added, claim.headers, emit)
        standing = await _commit(store, place, added)
    except Rejected as error:
        text = f"Rejected: the store did not take the added steps ({error})"
        return _failed(settlement, text, keep)
    if standing is None:
        return _failed(settlement, _FLOW_GONE, keep)
    if standing is added.addition:
        return settlement
    returned = Returned(standing.result)
    verdict = judge(claim, returned, keep, 0.0)
    return replace(settlement, verdict=verdict, added=AddedSteps(standing))


async def _enqueue(store: Store, added: AddedSteps, headers: bytes, emit: Emit) -> None:
    """Store the added steps, with the trace of their flow as `headers`."""
    for at in range(0, len(added.jobs), CALL_JOBS):
        some = [replace(job, headers=headers) for job in added.jobs[at : at + CALL_JOBS]]
        emit(Enqueued(some, await store.enqueue(some), wall_clock()))


async def _commit(store: Store, adder: FlowPlace, added: AddedSteps) -> Addition | None:
    """Tell the counter of the adder what it has added, or the flow itself if the counter has ended.
    Returns the addition that stands; None if the flow is gone."""
    if not added.jobs or adder.counter is None:  # an earlier run has told it
        return added.addition
    signal = SignalJob(added_signal(adder.number), pack_addition(added.addition))
    for number in dict.fromkeys((adder.counter.first, 0)):
        [answer] = await store.amend([step_id(adder.flow, number)], signal)
        if answer is Answer.DONE:
            return added.addition
        if answer is Answer.TAKEN:
            standing = await addition_of(store, adder)
            return added.addition if standing == added.addition else standing
    return None


def _failed(settlement: Settlement, error: str, keep: Retention) -> Settlement:
    verdict = judge(settlement.claim, Raised(error, final=True), keep, 0.0)
    return replace(settlement, verdict=verdict, added=None)


async def stands(store: Store, flow: str, spec: FlowSpec, adder: FlowPlace) -> bool:
    """Whether this addition still counts. It looks after one whose worker died: if the counter of
    the adder knows it, its steps are told that they can start. If it does not, and the adder has
    ended, the steps are removed, and the answer is False."""
    addition = await addition_of(store, adder)
    if addition is not None and addition.flow == flow:
        id = step_id(adder.flow, adder.number)
        await arrive(store, addition_arrivals(id, addition))
        return True
    if addition is None:
        [job] = await store.find([step_id(adder.flow, adder.number)])
        if job is not None and job.state not in TERMINAL:  # it may still tell its counter
            return True
    await _remove(store, flow, spec)
    return False


async def _remove(store: Store, flow: str, spec: FlowSpec) -> None:
    """Remove all jobs of an addition but its own."""
    groups, _ = counter_groups(spec.steps, spec.first_counter)
    ids = [step_id(flow, number) for number in range(1, spec.first_counter + len(groups))]
    at_once: Wait = 0
    await cancel(store, ids, "the run that added it was lost", at_once, [])
