"""The statements that settle runs: short ones for the verdicts that most runs have, and one for
all. They have the same result; the short ones leave a job to the full one if something was asked of
it while it ran, or deal with that themselves."""

from mita.model.job import Asked, Claim, State
from mita.model.outcome import Settlement, TimelineKind, Verdict
from mita.rules.asked import kind_after
from mita.rules.durable import signal_name
from mita.stores.postgres.context import Query, query
from mita.stores.postgres.limits.settled_keys import keys_of_claim
from mita.stores.postgres.server.arrays import blobs, flags, numbers, texts


def is_plain(settlement: Settlement) -> bool:
    """Whether the job succeeded, with nothing but a result to write, and has no keys."""
    claim, verdict = settlement.claim, settlement.verdict
    return (
        verdict.is_plain_success
        and claim.resource is None
        and claim.unique is None
        and not claim.gates
    )


def is_return(verdict: Verdict) -> bool:
    """Whether the job returns to the queue with a new line in its timeline, and there is nothing
    else to write: no hold, no signal that it waits for, no tokens that it gives back."""
    return (
        verdict.state is State.QUEUED
        and verdict.event is not TimelineKind.NONE
        and verdict.hold is None
        and verdict.waits is None
        and not (verdict.unstarted or verdict.stranded or verdict.told)
    )


def claims_of(settlements: list[Settlement]) -> dict[str, str]:
    """Ids and tokens, sorted by id: all statements lock rows in one order, so none deadlock."""
    settlements.sort(key=_id_of)
    return {
        "ids": texts([settlement.claim.id for settlement in settlements]),
        "tokens": numbers([settlement.claim.token for settlement in settlements]),
    }


def _id_of(settlement: Settlement) -> str:
    return settlement.claim.id


def _first_key(claim: Claim) -> str | None:
    return next((key for _, key in keys_of_claim(claim)), None)


def succeed(name: str, settlements: list[Settlement]) -> Query:
    """Settle plain successes with the statement of this name."""
    return query(
        name,
        **claims_of(settlements),
        results=blobs([settlement.verdict.result for settlement in settlements]),
        keeps=numbers([settlement.verdict.keep for settlement in settlements]),
    )


def return_jobs(settlements: list[Settlement]) -> Query:
    """Return jobs without keys to the queue (`is_return`)."""
    claims = claims_of(settlements)
    verdicts = [settlement.verdict for settlement in settlements]
    whens = [verdict.when for verdict in verdicts]
    return query(
        "settle_return",
        **claims,
        waits=numbers([None if when is None else when.wait for when in whens]),
        ats=numbers([None if when is None else when.at for when in whens]),
        counts=texts([verdict.counts.value if verdict.counts else "" for verdict in verdicts]),
        errors=texts([verdict.error for verdict in verdicts]),
        kinds=texts([verdict.event for verdict in verdicts]),
        notes=texts([verdict.note for verdict in verdicts]),
        failures=texts([verdict.failure for verdict in verdicts]),
        workers=texts([verdict.worker for verdict in verdicts]),
    )


def settle_fully(settlements: list[Settlement]) -> Query:
    """Settle runs with the statement for all verdicts."""
    claims = claims_of(settlements)
    verdicts = [settlement.verdict for settlement in settlements]
    whens = [verdict.when for verdict in verdicts]
    holds = [verdict.hold for verdict in verdicts]
    return query(
        "settle",
        **claims,
        states=texts([verdict.state.value for verdict in verdicts]),
        waits=numbers([None if when is None else when.wait for when in whens]),
        ats=numbers([None if when is None else when.at for when in whens]),
        counts=texts([verdict.counts.value if verdict.counts else "" for verdict in verdicts]),
        results=blobs([verdict.result for verdict in verdicts]),
        errors=texts([verdict.error for verdict in verdicts]),
        keeps=numbers([verdict.keep for verdict in verdicts]),
        stranded=flags([verdict.stranded for verdict in verdicts]),
        kinds=texts([verdict.event for verdict in verdicts]),
        # what is asked does not matter for the kind, only that something is
        asked_kinds=texts([kind_after(Asked.CANCEL, verdict) for verdict in verdicts]),
        notes=texts([verdict.note for verdict in verdicts]),
        failures=texts([verdict.failure for verdict in verdicts]),
        workers=texts([verdict.worker for verdict in verdicts]),
        hold_waits=numbers([None if hold is None else hold.wait for hold in holds]),
        hold_ats=numbers([None if hold is None else hold.at for hold in holds]),
        first_keys=texts([_first_key(settlement.claim) for settlement in settlements]),
        unstarted=flags([verdict.unstarted for verdict in verdicts]),
        told=flags([verdict.told for verdict in verdicts]),
        signals=texts(
            [None if verdict.waits is None else signal_name(verdict.waits) for verdict in verdicts]
        ),
        groups=texts([verdict.group for verdict in verdicts]),
    )
