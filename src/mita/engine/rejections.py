"""Settlements that the store rejected are made smaller and written again, in the same way for all
stores."""

import logging
from collections.abc import Sequence

from msgspec.structs import replace

from mita.errors import Rejected
from mita.model.outcome import Settlement
from mita.ports.store import Store
from mita.rules.fitting import smaller
from mita.rules.judge import Retention

from .job_log import extras, log_verdict

log = logging.getLogger("mita.worker")


async def settle(
    store: Store, batch: Sequence[Settlement], keep: Retention
) -> tuple[list[Settlement], list[bool]]:
    """Settle all of them, made smaller where the store rejects them. Returns what was written, and
    for each whether it took effect."""
    written: list[Settlement] = []
    took: list[bool] = []
    while batch:
        try:
            answers = await store.settle(batch)
            return [*written, *batch], [*took, *answers]
        except Rejected as error:
            if not error.rejected:
                raise
            done, answers, batch = split(batch, error, keep)
            written += done
            took += answers
    return written, took


def split(
    batch: Sequence[Settlement], error: Rejected, keep: Retention
) -> tuple[list[Settlement], list[bool], list[Settlement]]:
    """Returns the settlements that were written, whether each took effect, and what to write
    instead of the rejected ones."""
    written = [at for at in range(len(batch)) if at not in error.rejected]
    again = [_smaller(batch[at], reason, keep) for at, reason in error.rejected.items()]
    return (
        [batch[at] for at in written],
        [error.took[at] for at in written],
        [less for less in again if less is not None],
    )


def _smaller(settlement: Settlement, reason: str, keep: Retention) -> Settlement | None:
    """Returns a smaller settlement; None if the store rejects even the smallest one. That job is
    left until its lease ends."""
    claim = settlement.claim
    verdict = smaller(settlement.verdict, reason, keep.failed, claim.task)
    if verdict is None:
        text = "job %s of %s cannot be settled, and waits until its lease expires: %s"
        log.error(
            text, claim.id, claim.task, reason, extra=extras(claim, "rejected", settlement.seconds)
        )
        return None
    log_verdict(claim, verdict, settlement.seconds)
    return replace(settlement, verdict=verdict)
