"""What can go wrong, in one tree.

MitaError
    UsageError      the caller wrote something wrong; the message says what and how to fix it
    StoreError      the store could not; `.transient` says whether trying again may help
        Rejected    the store is there and does not take this: it is too large, or breaks a rule of
        its database
        StoreMissing  there is no Mita store at the given location
        StoreAway   a handler waited for its store until its lease was over; its run is interrupted,
        not failed
    JobFailed       the job you waited for ended in the dead letters
    JobCancelled    the job you waited for was cancelled
    LeaseLost       this run no longer owns its job; whatever it does now is refused
"""

from collections.abc import Iterable, Mapping, Sequence
from difflib import get_close_matches

from mita.printable import printable


class MitaError(Exception):
    """The base class of every error that Mita raises on purpose."""


class UsageError(MitaError):
    """The caller wrote something wrong. The message says what, and how to fix it."""


class StoreError(MitaError):
    """A store operation failed. `transient`: it may succeed if it is tried again. The driver's own
    error is the `__cause__`."""

    def __init__(self, message: str, *, transient: bool = False) -> None:
        super().__init__(message)
        self.transient = transient


class Rejected(StoreError):
    """The store does not accept this, however often it is tried. For a batch of settlements,
    `rejected` has the reason by position, and `took` is the answer for all of them: the others were
    written."""

    def __init__(
        self, message: str, *, took: Sequence[bool] = (), rejected: Mapping[int, str] | None = None
    ) -> None:
        super().__init__(message, transient=False)
        self.took = list(took)
        self.rejected = dict(rejected or {})


class StoreMissing(StoreError):
    """There is no Mita database at this URL, and none was created."""


class StoreAway(StoreError):
    """The store was unreachable for as long as a run's lease lasted. The run was interrupted; it
    has not failed."""

    def __init__(self, message: str) -> None:
        super().__init__(message, transient=True)


class JobFailed(MitaError):
    """The job that you waited for has failed. `error` is the text of its last error, `id` is the
    job."""

    is_lasting = False  # whether every later run of the handler that raises it gets it again

    def __init__(self, id: str, error: str) -> None:
        super().__init__(
            f"job {id} failed: {printable(error.splitlines()[0]) if error else 'no reason kept'}"
        )
        self.id = id
        self.error = error


class JobCancelled(MitaError):
    """The job that you waited for was cancelled."""

    is_lasting = False  # as in JobFailed

    def __init__(self, id: str, reason: str = "") -> None:
        super().__init__(f"job {id} was cancelled" + (f": {printable(reason)}" if reason else ""))
        self.id = id


class LeaseLost(MitaError):
    """The lease of this run ran out: another worker may have its job now."""


def did_you_mean(word: str, known: Iterable[str]) -> str:
    """Return a hint with the known word that is most like this one; empty if none is."""
    near = get_close_matches(word, list(known), 1)
    return f", did you mean {near[0]!r}?" if near else ""
