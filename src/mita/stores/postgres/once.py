"""Progress of runs, and once values, which `job.once` keeps across retries.

Once values are in the column `memos` and the table `_memo`. Both have their names from version 0.1,
whose workers may run beside this version during an upgrade, so the names stay."""

from base64 import b64decode
from collections.abc import Sequence

from mita.model.job import Claim
from mita.model.outcome import Progress
from mita.ports.store import OnceValue
from mita.stores.shared.views import as_once_value

from .context import PostgresContext, RoundTrip, RoundTrips, query
from .server.arrays import blobs, check_size, numbers, storable, texts


def progress(_: PostgresContext, reports: Sequence[Progress]) -> RoundTrips[list[bool]]:
    """Store the newest report of each run. Returns for each report whether its claim is held."""
    if not reports:
        return []
    newest = {(report.claim.id, report.claim.token): report.report for report in reports}
    ordered = sorted(newest)
    [rows] = yield RoundTrip(
        query(
            "progress",
            ids=texts([id for id, _ in ordered]),
            tokens=numbers([token for _, token in ordered]),
            reports=blobs([newest[held] for held in ordered]),
        ),
        last=True,
    )
    held = set(rows)
    return [(report.claim.id, report.claim.token) in held for report in reports]


def load_once(
    _: PostgresContext, claim: Claim, name: str, shared: bool
) -> RoundTrips[bytes | None]:
    """The value stored under this name for the job, or for all jobs if `shared`."""
    one = (
        query("load_once_shared", name=storable(name))
        if shared
        else query("load_once", id=claim.id, name=storable(name))
    )
    [rows] = yield RoundTrip(one, last=True)
    return None if not rows or rows[0][0] is None else as_once_value(name, rows[0][0])


def once_values(_: PostgresContext, id: str) -> RoundTrips[dict[str, bytes]]:
    """The values that this job has stored, by name."""
    [rows] = yield RoundTrip(query("once_values", id=storable(id)), last=True)
    return {name: as_once_value(name, _decoded(value)) for name, value in rows}


def _decoded(value: str | None) -> bytes | None:
    """The bytes of a value in base64, which PostgreSQL writes in several lines. None if it cannot
    be read."""
    try:
        return None if value is None else b64decode(value.replace("\n", ""), validate=True)
    except ValueError:
        return None


def store_once(_: PostgresContext, value: OnceValue) -> RoundTrips[bytes | None]:
    """Store a value unless there is one. Returns the stored value; None when the claim is lost."""
    claim = value.claim
    check_size(value.value)
    values = {
        "id": claim.id,
        "token": claim.token,
        "name": storable(value.name),
        "value": value.value,
    }
    one = (
        query("store_once", **values)
        if value.keep is None
        else query("store_once_shared", **values, keep=value.keep)
    )
    [rows] = yield RoundTrip(one, last=True)
    return as_once_value(value.name, rows[0][0]) if rows else None
