"""`pause_after`: counts the failures of a repeat's jobs, and pauses the repeat after too many in a
row.

A worker reports a job after its settlement was written. If it dies in between, or the store cannot
be reached, that one report is missing: a failure is never counted twice."""

import logging
from collections.abc import Sequence

from mita.errors import StoreError
from mita.events import Emit
from mita.events.signals import RepeatPaused
from mita.model.job import Claim, State
from mita.model.outcome import Settlement
from mita.ports.store import Store
from mita.rules.judge import first_line
from mita.rules.options import options_of
from mita.rules.schedule.failures import pause_reason

log = logging.getLogger("mita.worker")


async def report_repeats(
    store: Store, settlements: Sequence[Settlement], took: Sequence[bool], emit: Emit
) -> None:
    """Report those of these settlements that ended a job of a repeat with `pause_after`. `took`
    says which were written. Cancelled jobs count neither as failures nor as successes."""
    for settlement, written in zip(settlements, took, strict=True):
        claim, state = settlement.claim, settlement.verdict.state
        ended = state in (State.SUCCEEDED, State.FAILED) and not settlement.was_cancelled
        if claim.repeat is None or not written or not ended:
            continue
        if (most := options_of(claim.options).pause_after) is None:
            continue
        try:
            await _report(store, settlement, claim.repeat, most, emit)
        except StoreError as error:
            log.warning(
                "the end of job %s was not counted for pause_after of repeat %s: %s",
                claim.id,
                claim.repeat,
                error,
            )


async def _report(store: Store, settlement: Settlement, key: str, most: int, emit: Emit) -> None:
    failed = settlement.verdict.state is State.FAILED
    failures = await store.report_repeat(key, failed)
    if not failed or failures < most:
        return
    claim = settlement.claim
    reason = pause_reason(failures, claim.id, first_line(settlement.verdict.error or ""))
    now = await store.now()
    if not all(await store.pause_repeats([key], reason)):
        return  # it is paused already, or over
    _log_pause(claim, key, reason)
    emit(RepeatPaused(key, claim.task, claim.queue, failures, now))


def _log_pause(claim: Claim, key: str, reason: str) -> None:
    facts = {"event": "paused", "repeat": key, "task": claim.task, "queue": claim.queue}
    text = "repeat %s is paused: %s. Resume it with: mita repeats resume %s"
    log.error(text, key, reason, key, extra=facts)
