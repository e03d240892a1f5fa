"""Settlements that the store rejected are made smaller and written again: one way for all
stores."""

import logging
from collections.abc import Sequence

from msgspec.structs import replace

from mita.errors import Rejected
from mita.model.outcome import Settlement
from mita.ports.store import Store
from mita.rules.fitting import smaller
from mita.rules.judge import Retention

from .job_log import extras, report

log = logging.getLogger("mita.worker")


async def settle(
    store: Store, batch: Sequence[Settlement], keep: Retention
) -> tuple[list[Settlement], list[bool]]:
    """Settle all of them, smaller where they have to be; what was written, and the answers."""
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
    """What was written, the answers to it, and what is to be written instead of what was
    rejected."""
    written = [at for at in range(len(batch)) if at not in error.rejected]
    again = [_smaller(batch[at], reason, keep) for at, reason in error.rejected.items()]
    return (
        [batch[at] for at in written],
        [error.took[at] for at in written],
        [less for less in again if less is not None],
    )


def _smaller(settlement: Settlement, reason: str, keep: Retention) -> Settlement | None:
    """None: the store takes nothing at all of how this run ended. Its job is left until its lease
    ends."""
    claim = settlement.claim
    verdict = smaller(settlement.verdict, reason, keep.failed)
    if verdict is None:
        text = "job %s of %s cannot be put down, and is left until its lease ends: %s"
        log.error(
            text, claim.id, claim.task, reason, extra=extras(claim, "rejected", settlement.seconds)
        )
        return None
    report(claim, verdict, settlement.seconds)
    return replace(settlement, verdict=verdict)
