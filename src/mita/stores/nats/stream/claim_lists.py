"""Lists of jobs that were claimed together, so that a reap need not read all job records."""

from collections.abc import Iterable, Sequence

from mita.model.job import Claim
from mita.model.time import Moment
from mita.stores.nats.client.messages import OutMessage, removal
from mita.stores.nats.client.wire import NatsWire
from mita.stores.nats.codec import ClaimListRecord, ClaimRef, pack

from .subjects import Subjects


class ClaimLists:
    """The claim lists of this store. It knows which jobs of each list are still running. A count
    would not do: a claim is settled twice if the answer to the first call was lost."""

    def __init__(self, wire: NatsWire, subjects: Subjects) -> None:
        self._wire, self._subjects = wire, subjects
        self._running: dict[str, set[str]] = {}  # by list: the subjects of the job records
        self._seqs: dict[str, int] = {}
        self._count = 0
        self._name = wire.new_inbox().rsplit(".", 1)[1]

    def new_id(self) -> str:
        """Returns the id of a new list."""
        self._count += 1
        return f"{self._name}-{self._count}"

    def message(self, list_id: str, until: Moment, records: Sequence[str]) -> OutMessage:
        """Returns the message that stores a list of jobs, given by the subjects of their records.
        None of their leases ends before `until`."""
        body = pack(ClaimListRecord(until, tuple(records)))
        return OutMessage(self._subjects.claim_list(list_id), body)

    def stored(self, list_id: str, seq: int, claims: Sequence[Claim]) -> None:
        """A list was stored under this sequence, with the jobs of these claims, which are running
        now. A list without jobs is removed at once."""
        if claims:
            self._running[list_id] = {claim.ref.subject for claim in claims}
            self._seqs[list_id] = seq
        else:
            self._remove(seq)

    def settled(self, refs: Iterable[object]) -> None:
        """Claims with these refs were settled. A list is removed with its last job."""
        for ref in refs:
            if not isinstance(ref, ClaimRef) or ref.list_id not in self._running:
                continue
            running = self._running[ref.list_id]
            running.discard(ref.subject)
            if not running:
                del self._running[ref.list_id]
                self._remove(self._seqs.pop(ref.list_id))

    def _remove(self, seq: int) -> None:
        """Without waiting: a list that stays is found and removed by a reap."""
        request = removal(self._subjects.stream, seq)
        self._wire.send_message(request.subject, request.body)
