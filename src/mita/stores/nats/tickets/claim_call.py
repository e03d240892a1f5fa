"""One call of `claim`, and the steps that jobs with and without resource keys have in common."""

import logging

from msgspec import Struct, field
from msgspec.structs import replace

from mita.errors import Rejected
from mita.model.job import State
from mita.model.outcome import Busy
from mita.model.time import Moment, Wait
from mita.stores.nats.codec import NatsJob, pack
from mita.stores.nats.context import NatsContext
from mita.stores.nats.stream.job_records import LocatedJob, is_about_to_fire

from .ticket import Ticket

log = logging.getLogger("mita.store")


class ClaimCall(Struct):
    """The arguments of a claim, the jobs it turned away at a closed gate (`without_token`: how many
    of them at a rate), and the limited queues of which no more jobs may start.

    `lines` are the keys, with their queues, at whose rate it has let new jobs wait, and `in_line`
    is how many jobs that were. `has_returned`: tickets that it had no use for were given back, so
    there are more."""

    context: NatsContext
    lease: Wait
    worker: str
    busy: list[Busy] = field(default_factory=list)
    full: set[str] = field(default_factory=set)
    without_token: int = 0
    lines: set[tuple[str, str]] = field(default_factory=set)
    in_line: int = 0
    has_returned: bool = False


def as_running(call: ClaimCall, record: NatsJob, now: Moment) -> NatsJob:
    """Returns the record of a job that this call claims at `now`."""
    return replace(
        record,
        state=State.RUNNING,
        token=record.token + 1,
        worker=call.worker,
        started=now,
        lease_until=now + call.lease,
        record_seq=0,
        schedule_at=0,
    )


def fitting(context: NatsContext, tickets: list[Ticket], error: Rejected) -> list[Ticket]:
    """Returns the tickets whose records fit into a message, and logs the others. Those became too
    large because the server's max_payload was lowered; they stay ready. Raises `error` if all
    fit."""
    fits = [ticket for ticket in tickets if len(pack(ticket.record)) <= context.max_record]
    if len(fits) == len(tickets):
        raise error
    for ticket in tickets:
        if ticket not in fits:
            record = ticket.record
            log.warning("job %s of %s cannot be claimed: %s", record.id, record.task, error)
    return fits


def is_valid(ticket: Ticket, located: LocatedJob, now: Moment) -> bool:
    """True if the ticket is the newest message of its job. It is not if the record for which it was
    made is gone (that run is over), or if the server is about to make another ticket."""
    if is_about_to_fire(located.schedule_at, now):
        return False
    if located.ticket_seq != ticket.seq or located.seq > ticket.seq:
        return False
    return ticket.record.record_seq == 0 or located.seq != 0
