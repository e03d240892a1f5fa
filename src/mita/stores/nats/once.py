"""`job.once`: values that a job, or all jobs, store at most once under a name."""

from mita.errors import Rejected
from mita.model.job import Claim
from mita.model.time import Wait
from mita.ports.store import OnceValue
from mita.rules.durable import described

from .codec import NatsJob, SharedOnceRecord, pack
from .context import NatsContext
from .settle import is_held
from .stream.decode import decode_shared_once
from .stream.job_changes import change
from .stream.job_records import TTL, whole_seconds
from .stream.transaction import StreamTransaction, transact


async def load_once(context: NatsContext, claim: Claim, name: str, shared: bool) -> bytes | None:
    """Returns the value under this name, of this job or (`shared`) of all jobs; None if there is
    none."""
    if not shared:
        record = (await StreamTransaction(context).job(claim.id)).record
        return None if record is None else record.once_values.get(name)
    found = await context.reader.one(context.subjects.shared_once(name))
    value = decode_shared_once(found.body) if found is not None and found.body else None
    return value.value if value is not None and value.until > context.clock.now() else None


async def once_values(context: NatsContext, id: str) -> dict[str, bytes]:
    """Returns the values that this job has stored, by name."""
    record = (await StreamTransaction(context).job(id)).record
    return {} if record is None else dict(record.once_values)


async def store_once(context: NatsContext, value: OnceValue) -> bytes | None:
    """Store a value unless there is one. Returns the value that is stored now, None if the claim's
    token is stale. Raises Rejected if the value is too large."""
    return await transact(context, lambda tx: _store(tx, value))


async def _store(tx: StreamTransaction, value: OnceValue) -> bytes | None:
    located = await tx.job(value.claim.id)
    record = located.record
    if record is None or not is_held(located, value.claim.token):
        return None
    if value.keep is not None:
        return await _store_shared(tx, value, value.keep)
    if value.name not in record.once_values:
        check_room(tx.context, record, value.name, value.value)
        await change(tx, located, once_values={**record.once_values, value.name: value.value})
    return record.once_values.get(value.name, value.value)


def check_room(context: NatsContext, record: NatsJob, name: str, value: bytes) -> None:
    """The `once` values are part of a job's record, as its arguments are; neither is ever cut."""
    taken = (
        len(record.payload)
        + len(record.headers)
        + sum(len(name) + len(stored) for name, stored in record.once_values.items())
    )
    if taken + len(name) + len(value) > context.room:
        left = max(0, context.room - taken - len(name))
        raise Rejected(
            f"job {record.id}: the {described(name)} has {len(value):,} bytes, and beside the "
            f"job's arguments and other values there is room for {left:,}; store the value "
            "elsewhere and keep only its name, or raise the server's max_payload"
        )


def check_room_for_arguments(context: NatsContext, record: NatsJob, payload: bytes) -> None:
    """Raises Rejected if a job cannot have these arguments, beside its `once` values."""
    taken = sum(len(name) + len(stored) for name, stored in record.once_values.items())
    left = max(0, context.room - len(record.headers) - taken)
    if len(payload) > left:
        raise Rejected(
            f"job {record.id}: the arguments have {len(payload):,} bytes, and beside its other "
            f"values there is room for {left:,}; store the data elsewhere and pass its name, or "
            "raise the server's max_payload"
        )


async def _store_shared(tx: StreamTransaction, value: OnceValue, keep: Wait) -> bytes:
    subject = tx.context.subjects.shared_once(value.name)
    body = await tx.body(subject)
    stored = decode_shared_once(body) if body else None
    if stored is not None and stored.until > tx.now:
        return stored.value
    if keep > 0:
        record = SharedOnceRecord(value.value, tx.now + keep)
        tx.put(subject, pack(record), TTL % whole_seconds(keep))
    return value.value
