"""An outbox whose jobs are encrypted."""

from collections.abc import Sequence
from typing import Any, cast

from mita.model.job import NewJob, Receipt
from mita.ports.outbox import JobOutbox

from .box import SealingBox
from .keyring import Keyring


class SealedOutbox:
    """An outbox in front of another one: it encrypts arguments before they are written to the
    user's database. The relay sends them as they are."""

    def __init__(self, outbox: JobOutbox, keyring: Keyring) -> None:
        self.behind: Any = outbox
        self._keyring, self._box = keyring, SealingBox(keyring)

    def __getattr__(self, name: str) -> Any:
        return getattr(self.behind, name)

    def named(self, name: str) -> "SealedOutbox":
        """Return an outbox in the same table with rows of its own, which encrypts, too."""
        return SealedOutbox(self.behind.named(name), self._keyring)

    async def enqueue_in(self, connection: Any, jobs: Sequence[NewJob]) -> list[Receipt]:
        """Write jobs with encrypted arguments, in the user's transaction."""
        sealed = self._box.seal_jobs(jobs)
        receipts: list[Receipt] = await self.behind.enqueue_in(connection, sealed)
        return receipts

    def enqueue_in_sync(self, connection: Any, jobs: Sequence[NewJob]) -> list[Receipt]:
        """`enqueue_in`, for a connection that is not async."""
        sealed = self._box.seal_jobs(jobs)
        receipts: list[Receipt] = self.behind.enqueue_in_sync(connection, sealed)
        return receipts


def sealed_outbox(outbox: JobOutbox | None, keyring: Keyring | None) -> JobOutbox | None:
    """Return the outbox of an app, which encrypts if the app has a keyring."""
    if outbox is None or keyring is None:
        return outbox
    return cast(JobOutbox, SealedOutbox(outbox, keyring))
