"""Lanes: where the tickets of a group of `fair` are, so that groups can take turns.

A consumer delivers tickets in the order of their arrival. So groups share the starts of a queue by
having consumers of their own: each group has a lane, and a claim pulls from all lanes by turns
(`tickets.turns`). Jobs without a group are in lane 0, the ordinary tickets.

A consumer costs the server a little for every message, so a priority of a queue has at most
`MOST_LANES`. Up to that many groups with ready jobs have a lane each. Of more groups, a new one
joins the lane with the fewest tickets: it shares the turns of that lane. Groups whose lane is empty
are forgotten when their lane is needed.

Nothing but the shares depends on lanes. So a store believes for a while which lane a group has, and
a job keeps its lane for all its runs."""

import time
from collections import Counter as Counters
from collections.abc import Collection, Iterable
from typing import Protocol, TypeAlias

import msgspec

from mita.stores.nats.client.messages import OutMessage
from mita.stores.nats.codec import MOST_LANES, LanesRecord, pack
from mita.stores.nats.context import NatsContext

from .decode import decode_lanes
from .slots import ticket_slot
from .transaction import StreamTransaction, transact

LANE_BELIEVED_S = 10.0
MOST_GROUPS = 1000  # that are remembered for one priority of a queue
Group: TypeAlias = tuple[str, int, str]  # queue, priority, name


class Grouped(Protocol):
    """A job with a group: what `lanes_of` needs to know."""

    @property
    def queue(self) -> str: ...
    @property
    def priority(self) -> int: ...
    @property
    def fair(self) -> str | None: ...


def group_of(job: Grouped) -> Group:
    """Returns the group of a job that has one."""
    return job.queue, job.priority, job.fair or ""


async def lanes_of(context: NatsContext, jobs: Iterable[Grouped]) -> dict[Group, int]:
    """Returns the lane of each group of these jobs; a group without one gets one."""
    wanted = {group_of(job) for job in jobs if job.fair is not None}
    known, now = context.lanes, time.monotonic()
    unknown: dict[tuple[str, int], list[str]] = {}
    for queue, priority, name in sorted(wanted):
        if known.get((queue, priority, name), (0, 0.0))[1] < now:
            unknown.setdefault((queue, priority), []).append(name)
    for (queue, priority), names in unknown.items():
        record = await _assigned(context, queue, priority, names)
        until = now + LANE_BELIEVED_S
        if len(known) > MOST_GROUPS:
            known.clear()
        known.update({(queue, priority, name): (record[name], until) for name in names})
    return {group: known[group][0] for group in wanted if group in known}


async def _assigned(
    context: NatsContext, queue: str, priority: int, names: Collection[str]
) -> dict[str, int]:
    subject = context.subjects.lanes(queue, priority)

    async def act(tx: StreamTransaction) -> dict[str, int]:
        body = await tx.body(subject)
        record = (decode_lanes(body) if body else None) or LanesRecord(queue, priority)
        new = [name for name in names if name not in record.groups]
        if not new:
            return record.groups
        groups = await _with(context, record, new)
        tx.put(subject, pack(LanesRecord(queue, priority, groups)))
        return groups

    return await transact(context, act)


async def _with(context: NatsContext, record: LanesRecord, new: list[str]) -> dict[str, int]:
    """Returns the lanes of the groups of a record and of new groups."""
    groups, load = dict(record.groups), Counters[int](record.groups.values())
    if len(new) > MOST_LANES - len(load):
        tickets = await _tickets(context, record, sorted(load))
        groups = {name: lane for name, lane in groups.items() if tickets.get(lane, 1)}
        load = Counters({lane: tickets.get(lane, 1) for lane in groups.values()})
    for name in new:
        lane = min(range(1, MOST_LANES + 1), key=lambda lane: (load[lane], lane))
        groups[name] = lane
        load[lane] += 1
    kept = list(groups)[-MOST_GROUPS:]
    return {name: groups[name] for name in [*kept, *new]}


async def _tickets(
    context: NatsContext, record: LanesRecord, lanes: Iterable[int]
) -> dict[int, int]:
    """Returns how many tickets the lanes have, also delivered ones."""
    subjects, lanes = context.subjects, list(lanes)
    slots = [ticket_slot(record.priority, lane) for lane in lanes]
    answers = await context.wire.request_all(
        [
            OutMessage(
                f"$JS.API.CONSUMER.INFO.{subjects.stream}.{subjects.consumer(record.queue, slot)}",
                b"",
            )
            for slot in slots
        ]
    )
    infos = [msgspec.json.decode(answer) if answer[:1] == b"{" else {} for answer in answers]
    return {
        lane: info.get("num_pending", 0) + info.get("num_ack_pending", 0)
        for lane, info in zip(lanes, infos, strict=True)
    }
