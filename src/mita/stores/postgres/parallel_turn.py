"""A turn under load takes two connections: what ended is put down on one while the next jobs are
taken up on the other.

In one transaction the server would work on one processor, and the claim would wait for the disk,
which it need not. A claim does not depend on jobs that simply ended well: they free no key and do
not go back to the queue, unless somebody asked for that; then it is as if they had ended a moment
later, and the queue rings."""

import asyncio
import time
from collections.abc import Sequence

from msgspec.structs import replace

from mita.errors import StoreError
from mita.model.outcome import ClaimResult, Settlement
from mita.model.time import Wait

from . import claim
from .line import Line
from .settle import is_plain, settle

AT_ONCE = 50  # settlements from which on it is worth a second round trip
CARE = 60.0  # seconds in which all is one transaction again, after verdicts could not be written


class Turning:
    """`work` does turns of a few; `beside` is only connected when there are many."""

    def __init__(self, work: Line, beside: Line) -> None:
        self._work, self._beside = work, beside
        self._careful_until = 0.0

    async def settle_and_claim(
        self,
        settlements: Sequence[Settlement],
        queues: Sequence[str],
        limit: int,
        lease: Wait,
        worker: str,
    ) -> ClaimResult:
        many = limit and len(settlements) >= AT_ONCE and time.monotonic() >= self._careful_until
        if many and all(is_plain(settlement) for settlement in settlements):
            return await self._at_once(settlements, queues, limit, lease, worker)
        return await self._work.do(
            lambda act: claim.settle_and_claim(act, settlements, queues, limit, lease, worker),
            again=True,
        )

    async def _at_once(
        self,
        settlements: Sequence[Settlement],
        queues: Sequence[str],
        limit: int,
        lease: Wait,
        worker: str,
    ) -> ClaimResult:
        """Jobs that were claimed beside verdicts which could not be written are not heard of, as if
        the answer was lost: they are taken over when their lease ends. So that happens once, and
        not with every try."""
        took, claimed = await asyncio.gather(
            self._work.do(lambda act: settle(act, settlements), again=True),
            self._beside.do(lambda act: claim.claim(act, queues, limit, lease, worker), again=True),
            return_exceptions=True,
        )
        if isinstance(took, BaseException):
            self._careful_until = time.monotonic() + CARE
            raise took
        if isinstance(claimed, StoreError):
            # the verdicts are written; whoever claims again hears of the trouble
            return ClaimResult(took, [], 0)
        if isinstance(claimed, BaseException):
            raise claimed
        return replace(claimed, took=took)
