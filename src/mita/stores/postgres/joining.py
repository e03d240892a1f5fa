"""The verbs that become part of a transaction of yours."""

from collections.abc import Collection, Sequence
from typing import Any

from mita.errors import LeaseLost
from mita.model.job import Claim, NewJob, Receipt, State
from mita.model.outcome import Settlement, Verdict
from mita.model.time import Wait

from .bell import Bell
from .enqueue import enqueue
from .line import Place
from .settle import settle
from .steps import Act, Steps
from .yours import adrive_yours, drive_yours


class Joining:
    """What a store can do on connections that are not its own."""

    _place: Place
    _bell: Bell

    async def enqueue_in(self, connection: Any, jobs: Sequence[NewJob]) -> list[Receipt]:
        """Enqueue as part of the transaction that is open on `connection`: the jobs exist exactly if it commits.

        Nobody is rung for them before you call `ring` after the commit; a worker that sleeps finds them within a second."""
        return await adrive_yours(connection, self._place, enqueue(self._stranger(), jobs)) if jobs else []

    def enqueue_in_sync(self, connection: Any, jobs: Sequence[NewJob]) -> list[Receipt]:
        """The same from code that is not async, which needs no open store."""
        return drive_yours(connection, self._place, enqueue(self._stranger(), jobs)) if jobs else []

    async def complete_in(self, connection: Any, claim: Claim, result: bytes, keep: Wait) -> None:
        """Let the run's success be part of the transaction that is open on `connection`. Raises `LeaseLost` when the run has
        lost its job: then roll back. The verdict that follows when the run ends is stale, and changes nothing."""
        _must_hold(claim, await adrive_yours(connection, self._place, self._success(claim, result, keep)))

    def complete_in_sync(self, connection: Any, claim: Claim, result: bytes, keep: Wait) -> None:
        """The same from code that is not async."""
        _must_hold(claim, drive_yours(connection, self._place, self._success(claim, result, keep)))

    def ring(self, queues: Collection[str]) -> None:
        """Wake whoever sleeps for these queues: after the commit of a transaction that enqueued."""
        self._bell.ring(set(queues))

    def _success(self, claim: Claim, result: bytes, keep: Wait) -> Steps[list[bool]]:
        verdict = Verdict(state=State.SUCCEEDED, result=result, keep=keep)
        return settle(self._stranger(), [Settlement(claim, verdict)])

    def _stranger(self) -> Act:
        """What is done in another's transaction may be undone: nothing of it is remembered here."""
        return Act(self._place.sql.namespace, self._place.marks, set())


def _must_hold(claim: Claim, took: list[bool]) -> None:
    if took != [True]:
        raise LeaseLost(f"job {claim.id} belongs to another run by now: roll your transaction back")
