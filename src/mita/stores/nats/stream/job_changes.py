"""Changing a job together with the records of its keys."""

from typing import Any

from msgspec.structs import replace

from mita.model.job import State
from mita.model.time import Wait
from mita.stores.nats import unique
from mita.stores.nats.codec import NatsJob

from . import gates, queue_use
from .job_records import LocatedJob
from .transaction import StreamTransaction


async def change(tx: StreamTransaction, located: LocatedJob, **changes: Any) -> NatsJob:
    """Change fields of a job; every change in a transaction goes this way. Returns the new
    record."""
    old = located.record
    assert old is not None, "only a job that is there can change"  # noqa: S101
    new = replace(old, **changes)
    if old.resource is not None or old.gates:
        await gates.follow_job(tx, old, new)
    if old.queue in tx.context.limited and old.state is State.RUNNING is not new.state:
        await queue_use.leave(tx, old)
    if old.unique is not None:
        await unique.follow_job(tx, old, new)
    tx.write(located, new)
    return new


async def finish(
    tx: StreamTransaction, located: LocatedJob, state: State, keep: Wait, **changes: Any
) -> NatsJob:
    """End a job in this state and keep it for `keep`. Returns the new record."""
    changes |= {"lease_until": None, "asked": None, "gone": keep == 0}
    changes["blocked_at"] = None
    return await change(tx, located, state=state, finished=tx.now, expires=tx.now + keep, **changes)
