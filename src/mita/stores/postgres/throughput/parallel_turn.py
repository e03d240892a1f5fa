"""Settling and claiming on two connections at once, when there is much to settle.

In one transaction the server would use one processor, and the claim would wait for the disk, which
it need not. A claim does not depend on runs that simply succeeded: they free no key and no place of
a limited queue (with one, all is one transaction), and put nothing back into the queue. If a few
others are among them, or if a reschedule was asked while one of them ran, jobs return to the queue
a moment later than they would otherwise, and the workers are notified."""

import asyncio
import time
from collections.abc import Sequence

from msgspec.structs import replace

from mita.errors import StoreError
from mita.model.outcome import ClaimResult, Settlement
from mita.model.time import Wait
from mita.stores.postgres import claim
from mita.stores.postgres.connection import SerialConnection
from mita.stores.postgres.limits.hints import ClaimHints
from mita.stores.postgres.settle import settle

from .settle_statements import is_plain

PARALLEL_SETTLEMENTS = 50  # from this many on, a second round trip pays
PLAIN_SHARE = 0.9  # at least this part of them has simply succeeded
# For so long everything is one transaction again, after settlements could not be written.
ONE_TRANSACTION_S = 60.0


class ParallelTurn:
    """Settles and claims. A few settlements go in one transaction on `work`; for many, the claim
    goes to `beside`, which is connected at first use."""

    def __init__(self, work: SerialConnection, beside: SerialConnection, hints: ClaimHints) -> None:
        self._work, self._beside, self._hints = work, beside, hints
        self._one_transaction_until_s = 0.0

    async def settle_and_claim(
        self,
        settlements: Sequence[Settlement],
        queues: Sequence[str],
        limit: int,
        lease: Wait,
        worker: str,
    ) -> ClaimResult:
        """Settle these runs and claim the next jobs."""
        many = (
            limit
            and len(settlements) >= PARALLEL_SETTLEMENTS
            and not self._hints.careful
            and time.monotonic() >= self._one_transaction_until_s
        )
        if many and sum(map(is_plain, settlements)) >= PLAIN_SHARE * len(settlements):
            return await self._in_parallel(settlements, queues, limit, lease, worker)
        return await self._work.run(
            lambda context: claim.settle_and_claim(
                context, settlements, queues, limit, lease, worker
            ),
            repeatable=True,
        )

    async def _in_parallel(
        self,
        settlements: Sequence[Settlement],
        queues: Sequence[str],
        limit: int,
        lease: Wait,
        worker: str,
    ) -> ClaimResult:
        """If the settlements could not be written, the jobs that were claimed beside them are not
        returned, as if the answer was lost: they are reaped when their lease ends. To have that
        once and not with every retry, the next calls use one transaction."""
        took, claimed = await asyncio.gather(
            self._work.run(lambda context: settle(context, settlements), repeatable=True),
            self._beside.run(
                lambda context: claim.claim(context, queues, limit, lease, worker), repeatable=True
            ),
            return_exceptions=True,
        )
        if isinstance(took, BaseException):
            self._one_transaction_until_s = time.monotonic() + ONE_TRANSACTION_S
            raise took
        if isinstance(claimed, StoreError):
            # the settlements are written; the next claim will raise if the trouble lasts
            return ClaimResult(took, [], 0)
        if isinstance(claimed, BaseException):
            raise claimed
        return replace(claimed, took=took)
