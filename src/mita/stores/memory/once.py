"""The progress of runs, and the values of `job.once`."""

from collections.abc import Sequence

from mita.errors import Rejected
from mita.model.job import Claim
from mita.model.outcome import Progress
from mita.ports.store import OnceValue

from .context import MemoryContext
from .state.memory_state import SharedOnceValue


def progress(context: MemoryContext, reports: Sequence[Progress]) -> list[bool]:
    """Store the progress of runs. False: the claim is not valid any more."""
    records = [context.held_by(report.claim) for report in reports]
    for record, report in zip(records, reports, strict=True):
        if record is not None:
            context.change(record, progress=report.report)
    return [record is not None for record in records]


def load_once(context: MemoryContext, claim: Claim, name: str, shared: bool) -> bytes | None:
    """The stored value, for this job or (`shared`) for all jobs; None if there is none."""
    if not shared:
        record = context.state.records.get(claim.id)
        return None if record is None else record.once_values.get(name)
    found = context.state.shared.get(name)
    return found.value if found is not None and found.until > context.now else None


def once_values(context: MemoryContext, id: str) -> dict[str, bytes]:
    """The values that this job has stored, by name."""
    record = context.state.records.get(id)
    return {} if record is None else dict(record.once_values)


def store_once(context: MemoryContext, value: OnceValue) -> bytes | None:
    """Store a value if there is none. Returns the value that is stored now; None if the claim is
    not valid any more."""
    record, room = context.held_by(value.claim), context.room
    if record is None:
        return None
    if room is not None and len(record.job.payload) + len(value.value) > room:
        raise Rejected(
            f"a value of {len(value.value):,} bytes is more than this store has room for ({room:,})"
        )
    if value.keep is None:
        return record.once_values.setdefault(value.name, value.value)
    existing = load_once(context, value.claim, value.name, shared=True)
    if existing is None:
        context.state.shared[value.name] = SharedOnceValue(value.value, context.now + value.keep)
    return value.value if existing is None else existing
