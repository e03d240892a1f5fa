"""The verbs that become part of a transaction of yours."""

from collections.abc import Sequence
from typing import Any, TypeVar

from mita.errors import LeaseLost
from mita.model.job import Claim, NewJob, Receipt
from mita.model.outcome import Settlement
from mita.model.time import Wait
from mita.rules.judge import success

from .commits import Commits
from .enqueue import enqueue
from .line import Place
from .settle import settle
from .steps import Act, Step, Steps, ask
from .user_transaction import adrive_yours, drive_yours

T = TypeVar("T")


class Joining:
    """What a store can do on connections that are not its own."""

    _place: Place
    _commits: Commits | None = None

    async def enqueue_in(self, connection: Any, jobs: Sequence[NewJob]) -> list[Receipt]:
        """Enqueue as part of the transaction that is open on `connection`: the jobs exist exactly
        if it commits. Then the workers are notified."""
        if not jobs:
            return []
        act = self._yours()
        receipts = await adrive_yours(connection, self._place, numbered(act, enqueue(act, jobs)))
        self._notify_at_commit(act)
        return receipts

    def enqueue_in_sync(self, connection: Any, jobs: Sequence[NewJob]) -> list[Receipt]:
        """The same from code that is not async, which needs no open store. Without one nobody is
        notified."""
        if not jobs:
            return []
        act = self._yours()
        receipts = drive_yours(connection, self._place, numbered(act, enqueue(act, jobs)))
        self._notify_at_commit(act)
        return receipts

    async def complete_in(self, connection: Any, claim: Claim, result: bytes, keep: Wait) -> None:
        """Let the run's success be part of the transaction that is open on `connection`. Raises
        `LeaseLost` when the run has lost its job: then roll back. The verdict that follows when the
        run ends is stale, and changes nothing."""
        act = self._yours()
        _must_hold(
            claim, await adrive_yours(connection, self._place, _success(act, claim, result, keep))
        )
        self._notify_at_commit(act)

    def complete_in_sync(self, connection: Any, claim: Claim, result: bytes, keep: Wait) -> None:
        """The same from code that is not async."""
        act = self._yours()
        _must_hold(claim, drive_yours(connection, self._place, _success(act, claim, result, keep)))
        self._notify_at_commit(act)

    def _yours(self) -> Act:
        """What is done in another's transaction may be undone: nothing of it is remembered here."""
        return Act(self._place.sql.namespace, self._place.marks, set(), yours=True)

    def _notify_at_commit(self, act: Act) -> None:
        if self._commits is not None and act.topics and act.transaction is not None:
            self._commits.watch(act.transaction, act.topics)


def numbered(act: Act, steps: Steps[T]) -> Steps[T]:
    """The same steps, and the number of the transaction if somebody is to be woken when it
    commits."""
    result = yield from steps
    if act.topics and act.transaction is None:
        [[(act.transaction,)]] = yield Step(ask("transaction"))
    return result


def _success(act: Act, claim: Claim, result: bytes, keep: Wait) -> Steps[list[bool]]:
    return numbered(act, settle(act, [Settlement(claim, success(result, keep))]))


def _must_hold(claim: Claim, took: list[bool]) -> None:
    if took != [True]:
        raise LeaseLost(f"job {claim.id} belongs to another run by now: roll your transaction back")
