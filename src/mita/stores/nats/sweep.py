"""Freeing what holds up other jobs for no reason: keys of jobs that do not run, places in line of
jobs that do not wait, and jobs that are written as running while no worker has them.

In the ordinary course nothing of the kind is left behind. But after a crash a server may restore
old messages of a stream that an older Mita has written (`homes.fenced` says how). Whatever the
cause, no job may have to wait for ever.

A key and its jobs are written in one batch, but a reader may meet a replica, or a moment, in which
only one of them is there yet. So what looks wrong is looked at a second time, when all that was
written before the first look is sure to be seen (`Context.catch_up`). What is written then is
fenced by the sequence of the first look."""

from collections.abc import Iterable, Sequence

from msgspec import Struct
from msgspec.structs import replace

from mita.model.job import State
from mita.model.time import MINUTE, Wait
from mita.rules.judge import Retention

from . import indexes, resources
from .codec import KeyRecord, Record, noted
from .context import Context
from .job_records import Place, locate
from .reading import read_claimed, read_key, read_record, read_waiter
from .reads import Found
from .removal import remove
from .subjects import hashed, name
from .tx import Tx, transact

# so long after its lease a running job that no listing names is given up
ABANDONED: Wait = 5 * MINUTE
WHY = (
    "WorkerLost: this job was found as running, but no worker has it. NATS may have restored an "
    "old record after a crash: "
    "look whether the job has had its effect, and retry it if it has not"
)


class Held(Struct, frozen=True):
    """A resource key as it was first seen."""

    subject: str
    seq: int
    key: KeyRecord


async def free_keys(context: Context) -> None:
    """Free the keys of jobs that do not run, and wake whoever waits for a key that is free."""
    found = [
        message for message in await context.reader.all(context.subjects.all("k")) if message.body
    ]
    keys = [
        Held(message.subject, message.seq, key)
        for message in found
        for key in await _keys(context, message)
    ]
    doubtful = await _doubtful(context, keys)
    for held in keys:
        if held.key.waiting:
            await transact(context, lambda tx, key=held.key: resources.wake(tx, key.queue, key.key))  # type: ignore[misc]
    if doubtful:
        await context.catch_up()
        for held in doubtful:
            await transact(context, lambda tx, held=held: _free(tx, held))  # type: ignore[misc]


async def _keys(context: Context, message: Found) -> list[KeyRecord]:
    """The key of this record. The name of one that cannot be read is looked for among the jobs of
    its queue."""
    if (key := read_key(message.body, message.subject)) is not None:
        return [key]
    queue, hash = message.subject.split(".")[-2:]
    homes = await context.reader.all(context.subjects.homes(name(queue)))
    keys = {read_record(home.body, home.subject).resource for home in homes}
    return [
        await indexes.key_of(Tx(context), name(queue), key)
        for key in keys
        if key is not None and hashed(key) == hash
    ]


async def _doubtful(context: Context, keys: Sequence[Held]) -> list[Held]:
    """The keys of which a holder does not run, and those that are waited for and held by no job."""
    places = await locate(context, {id for held in keys for id in held.key.holders})
    await give_up(context, [place.record for place in places.values() if place.record is not None])
    return [
        held
        for held in keys
        if not held.key.holders or any(not _holds(places[id], held.key) for id in held.key.holders)
    ]


def _holds(place: Place, key: KeyRecord) -> bool:
    record = place.record
    return (
        record is not None
        and record.state is State.RUNNING
        and (record.queue, record.resource) == (key.queue, key.key)
    )


async def _free(tx: Tx, held: Held) -> None:
    """Write who really holds a key and how many really wait for it, unless somebody has written it
    since."""
    key = held.key
    if await tx.sequence(held.subject) != held.seq or await indexes.on_hold(tx, key.queue, key.key):
        return
    places = zip(key.holders, await tx.jobs(key.holders), strict=True)
    holders = tuple(id for id, place in places if _holds(place, key))
    waiting = key.waiting if holders else await _count_line(tx, key)
    if (holders, waiting) != (key.holders, key.waiting):
        indexes.put_key(tx, replace(key, holders=holders, waiting=waiting))
    await resources.wake(tx, key.queue, key.key)


async def _count_line(tx: Tx, key: KeyRecord) -> int:
    """How many wait for a key. The places of others are removed, by their sequence: one that was
    written since is not. Of a very long line only the head is looked at."""
    line, whole = await resources.messages_of(tx, key.queue, key.key)
    ids = {
        message.subject: read_waiter(message.body, message.subject).id
        for message in line
        if message.body
    }
    places = dict(zip(ids, await tx.jobs(ids.values()), strict=True))
    stale = {subject for subject, place in places.items() if not _waits(place, key)}
    await remove(tx.context, [message.seq for message in line if message.subject in stale])
    return len(ids) - len(stale) if whole else key.waiting


def _waits(place: Place, key: KeyRecord) -> bool:
    record = place.record
    return (
        record is not None
        and record.state is State.BLOCKED
        and (record.queue, record.resource) == (key.queue, key.key)
    )


# ---------------------------------------------------------------- jobs that nothing runs


async def give_up(context: Context, records: Iterable[Record]) -> None:
    """Fail those of these jobs that are written as running, long after their lease, and that no
    listing names: no reap would find them."""
    before = context.clock.now() - ABANDONED
    suspects = [
        record
        for record in records
        if record.state is State.RUNNING and (record.lease_until or 0) < before
    ]
    if not suspects:
        return
    listed = await _listed(context)
    for record in suspects:
        if context.subjects.home(record.queue, record.id) not in listed:
            await transact(context, lambda tx, record=record: _fail(tx, record))  # type: ignore[misc]


async def _listed(context: Context) -> set[str]:
    listings: list[Found] = await context.reader.all(context.subjects.all("c"))
    read = [read_claimed(listing.body) for listing in listings if listing.body]
    return {home for claimed in read if claimed is not None for home in claimed.homes}


async def _fail(tx: Tx, seen: Record) -> None:
    place = await tx.job(seen.id)
    record = place.record
    if record is None or record.state is not State.RUNNING or record.token != seen.token:
        return
    said = noted(record, tx.now, "failed", WHY)
    await indexes.finish(tx, place, State.FAILED, Retention().failed, error=WHY, **said)
    if record.resource is not None:
        await resources.wake(tx, record.queue, record.resource, most=1)
