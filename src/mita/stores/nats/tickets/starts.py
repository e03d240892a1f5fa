"""The jobs that one transaction starts, together with the claim list that names them."""

from mita.model.job import Claim
from mita.stores.nats.codec import ClaimRef, NatsJob, as_claim
from mita.stores.nats.stream.job_changes import change
from mita.stores.nats.stream.job_records import LocatedJob
from mita.stores.nats.stream.transaction import StreamTransaction

from .claim_call import ClaimCall, as_running


class Starts:
    """What one try of a transaction starts. `claims` is called after the commit."""

    def __init__(self, call: ClaimCall, tx: StreamTransaction, list_id: str) -> None:
        self._call, self._tx, self._list_id = call, tx, list_id
        self._started: list[LocatedJob] = []

    async def start(self, located: LocatedJob, record: NatsJob) -> None:
        """Start a job."""
        new = as_running(self._call, record, self._tx.now)
        await change(
            self._tx,
            located,
            state=new.state,
            token=new.token,
            worker=new.worker,
            started=new.started,
            lease_until=new.lease_until,
            record_seq=0,
        )
        self._started.append(located)

    def put_list(self) -> None:
        """Write the claim list, if a job starts."""
        if self._started:
            subjects = [located.subject for located in self._started]
            lists, until = self._call.context.claim_lists, self._tx.now + self._call.lease
            listing = lists.message(self._list_id, until, subjects)
            self._tx.put(listing.subject, listing.body)

    def _ref(self, subject: str, job: NatsJob) -> ClaimRef:
        """Returns what a store needs to settle a job that was started."""
        keys = [
            self._tx.keys.get(self._tx.context.subjects.resource_key(job.queue, gate.key))
            for gate in job.gates
        ]
        holds_nothing = job.resource is None and not any(
            key is None or job.id in key.holders for key in keys
        )
        return ClaimRef(subject, self._tx.written[subject], self._list_id, job, holds_nothing)

    def claims(self) -> list[Claim]:
        """Returns the claims of the jobs that were started, without those that another writer
        changed at that moment."""
        context, seqs = self._call.context, self._tx.written
        claims = [
            as_claim(one.record, self._tx.now, self._ref(one.subject, one.record))
            for one in self._started
            if one.record is not None and seqs[one.subject]
        ]
        if self._started:
            list_seq = seqs[context.subjects.claim_list(self._list_id)]
            context.claim_lists.stored(self._list_id, list_seq, claims)
        return claims
