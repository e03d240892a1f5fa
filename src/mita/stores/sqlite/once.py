"""The progress of runs, and the values of `job.once`."""

from collections.abc import Sequence

import msgspec

from mita.model.job import Claim
from mita.model.outcome import Progress
from mita.model.time import Moment
from mita.ports.store import OnceValue
from mita.stores.shared.views import as_once_value

from .context import SqliteContext

SMALL_VALUES_BYTES = 1_000_000  # of all values of a job, to be read as one text
SHARED_CODE = 0  # in the column `job`: the value belongs to all jobs


def progress(context: SqliteContext, reports: Sequence[Progress]) -> list[bool]:
    """Store the progress of runs. False: the claim is not valid any more."""
    return [
        context.run("progress", seq=one.claim.ref, token=one.claim.token, report=one.report) == 1
        for one in reports
    ]


def load_once(context: SqliteContext, claim: Claim, name: str, shared: bool) -> bytes | None:
    """The stored value, for this job or (`shared`) for all jobs; None if there is none."""
    return load(context, SHARED_CODE if shared else claim.ref, name)


def once_values(context: SqliteContext, id: str) -> dict[str, bytes]:
    """The values that this job has stored, by name. Few bytes are read as one text: beside a busy
    event loop, the interpreter lock makes each row expensive."""
    if context.value("once_values_size", id=id) > SMALL_VALUES_BYTES:
        rows = context.rows("once_values", id=id)
        return {name: as_once_value(name, value) for name, value in rows}
    found = msgspec.json.decode(context.value("once_values_small", id=id))
    return {
        name: as_once_value(name, None if digits is None else bytes.fromhex(digits))
        for name, digits in found
    }


def load(context: SqliteContext, job: int, name: str) -> bytes | None:
    """The value that a job has stored under this name; None if there is none."""
    found = context.row("load_once", job=job, name=name, now=context.now)
    return None if found is None else as_once_value(name, found[0])


def exists(context: SqliteContext, job: int, name: str) -> bool:
    """Whether a job has stored a value under this name, even one that cannot be read."""
    return context.row("load_once", job=job, name=name, now=context.now) is not None


def store(
    context: SqliteContext, job: int, name: str, value: bytes, expires: Moment | None = None
) -> None:
    """Store a value of a job."""
    context.run("store_once", job=job, name=name, value=value, expires=expires)


def store_once(context: SqliteContext, value: OnceValue) -> bytes | None:
    """Store a value if there is none. Returns the value that is stored now; None if the claim is
    not valid any more."""
    claim, shared = value.claim, value.keep is not None
    if context.row("settle_held", seq=claim.ref, token=claim.token) is None:
        return None
    existing = load_once(context, claim, value.name, shared)
    if existing is not None:
        return existing
    expires = None if value.keep is None else context.now + value.keep
    store(context, SHARED_CODE if shared else claim.ref, value.name, value.value, expires)
    return value.value
