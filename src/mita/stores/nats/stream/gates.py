"""The gates of jobs: which are open, and what a start takes from them. The rules are in
`rules.gates`; here they are applied to the records of keys, inside a transaction."""

from collections.abc import Sequence

from msgspec.structs import replace

from mita.model.gate import Gate
from mita.model.job import Claim, State
from mita.model.outcome import Settlement, Verdict
from mita.rules import gates as rules
from mita.rules.gates import KeyUse
from mita.stores.nats.codec import NatsJob, ResourceKeyRecord

from .keys import held_until, move_waiter, put_resource_key, resource_key_record, use_of
from .transaction import StreamTransaction
from .waiters import read_for_wake


async def gates_in_force(tx: StreamTransaction, job: NatsJob) -> list[Gate]:
    """Returns the gates of a job: what an operator has set for a key replaces what the job says."""
    return [
        rules.effective(gate, (await resource_key_record(tx, job.queue, gate.key)).limit)
        for gate in rules.gates_of(job)
    ]


async def gate_at(tx: StreamTransaction, job: NatsJob, key: str) -> Gate:
    """Returns the gate of this job that has this key, as it is in force."""
    stored = (await resource_key_record(tx, job.queue, key)).limit
    found = [gate for gate in rules.gates_of(job) if gate.key == key]
    return rules.effective(found[0] if found else Gate(key, job.limit), stored)


async def bounded_use(tx: StreamTransaction, queue: str, gate: Gate) -> KeyUse:
    """Returns what is known of the key of a gate, with the numbers of its rate brought back."""
    found = await use_of(tx, queue, gate.key)
    use = rules.bounded(gate, found, tx.now)
    if use is not found:
        await set_levels(tx, queue, gate, use)
    return use


async def set_levels(tx: StreamTransaction, queue: str, gate: Gate, use: KeyUse) -> None:
    """Write the two numbers of a key's rate."""
    record = await resource_key_record(tx, queue, gate.key)
    put_resource_key(
        tx,
        replace(
            record,
            tat_us=use.tat_us,
            woken_us=use.woken_us,
            interval_us=gate.interval_us,
            burst=gate.burst,
        ),
    )


async def closed_gate(tx: StreamTransaction, job: NatsJob) -> tuple[Gate, KeyUse] | None:
    """Returns the first gate that this job cannot pass now, with what is known of its key; None if
    the job may start."""
    if not job.gates and job.resource is not None and await _has_place(tx, job, job.resource):
        return None
    for gate in await gates_in_force(tx, job):
        use = await bounded_use(tx, job.queue, gate)
        if not rules.is_open(gate, use, tx.now):
            return gate, use
    return None


async def _has_place(tx: StreamTransaction, job: NatsJob, key: str) -> bool:
    """True if a job with one key, for which no limit is stored, may start: the usual case, decided
    without the words of the rules."""
    record = await resource_key_record(tx, job.queue, key)
    if record.limit is not None or len(_others(record, job)) >= job.limit:
        return False
    return not await held_until(tx, job.queue, key)


async def follow_job(tx: StreamTransaction, old: NatsJob, new: NatsJob) -> None:
    """Update the records of a job's keys when the job changes: its start passes all gates, its end
    frees all keys, and a blocked job waits at one of them."""
    if old.state is new.state and not (old.state is State.BLOCKED and old.priority != new.priority):
        return
    if new.state is State.RUNNING and not new.gates and new.resource is not None:
        await _pass_one(tx, new, new.resource)
    elif new.state is State.RUNNING:
        for gate in await gates_in_force(tx, new):
            await _pass(tx, new, gate)
    elif old.state is State.RUNNING:
        for key in rules.keys_of(old.resource, old.gates):
            await free(tx, old.queue, key, old.id)
    if new.state is State.BLOCKED and new.blocked_at is not None:
        gate = await gate_at(tx, new, new.blocked_at)
        await move_waiter(tx, old, new, counted=gate.limit is not None or not gate.interval_us)
    elif old.state is State.BLOCKED:
        await move_waiter(tx, old, new, counted=True)


async def _pass_one(tx: StreamTransaction, job: NatsJob, key: str) -> None:
    """A job with one key starts."""
    record = await resource_key_record(tx, job.queue, key)
    if record.limit is not None:
        await _pass(tx, job, await gate_at(tx, job, key))
    else:
        put_resource_key(tx, replace(record, holders=(*_others(record, job), job.id)))


def _others(key: ResourceKeyRecord, job: NatsJob) -> Sequence[str]:
    """Returns the holders of a key without this job: it is one of them already if a store died
    while it started the job (`single_keys`)."""
    if job.id not in key.holders:
        return key.holders
    return [id for id in key.holders if id != job.id]


async def _pass(tx: StreamTransaction, job: NatsJob, gate: Gate) -> None:
    """A job starts. It is noted at the key only if the key counts running jobs: then its end does
    not touch the record of a key that has just a rate, for which many workers compete."""
    changed = replace(await resource_key_record(tx, job.queue, gate.key))
    if gate.limit is not None:
        changed.holders = (*(id for id in changed.holders if id != job.id), job.id)
    if gate.interval_us:
        use = rules.passed(gate, await use_of(tx, job.queue, gate.key), tx.now)
        changed.tat_us, changed.woken_us = use.tat_us, use.woken_us
        changed.interval_us, changed.burst = gate.interval_us, gate.burst
    put_resource_key(tx, changed)


async def free(tx: StreamTransaction, queue: str, key: str, id: str) -> None:
    """The job with this id does not hold this key any more."""
    record = await resource_key_record(tx, queue, key)
    if id in record.holders:
        holders = tuple(holder for holder in record.holders if holder != id)
        put_resource_key(tx, replace(record, holders=holders))


async def freed_keys(
    tx: StreamTransaction, job: NatsJob | Claim, verdict: Verdict
) -> Sequence[str]:
    """Returns the keys at which another job may start when this one ends: those at which it has a
    place, and all of them if it gives its tokens back."""
    keys = rules.keys_of(job.resource, job.gates)
    if not job.gates or verdict.unstarted:
        return keys
    records = [await resource_key_record(tx, job.queue, key) for key in keys]
    return [record.key for record in records if job.id in record.holders]


async def read_gates(tx: StreamTransaction, settlements: Sequence[Settlement]) -> None:
    """Read in advance what is needed to settle jobs with several gates."""
    subjects = tx.context.subjects
    await tx.read(
        subject
        for claim in (settlement.claim for settlement in settlements)
        for key in rules.keys_of(claim.resource, claim.gates)
        for subject in (subjects.queue(claim.queue), subjects.resource_key(claim.queue, key))
    )
    freed = [
        (one.claim.queue, key)
        for one in settlements
        for key in await freed_keys(tx, one.claim, one.verdict)
    ]
    await read_for_wake(tx, freed)


async def give_back(tx: StreamTransaction, job: NatsJob) -> None:
    """The job was not started after all: give the tokens of its rates back."""
    for gate in await gates_in_force(tx, job):
        use = await use_of(tx, job.queue, gate.key)
        if gate.interval_us and use.tat_us:
            claimed = job.started or tx.now
            returned_us = tx.returned.returned_us(gate, job.queue, gate.key, claimed)
            tat_us = rules.given_back(use.tat_us, returned_us)
            woken_us = rules.given_back(use.woken_us, returned_us)
            await set_levels(tx, job.queue, gate, replace(use, tat_us=tat_us, woken_us=woken_us))
