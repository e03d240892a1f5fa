"""What this process has told the jobs of flows."""

from collections.abc import Collection, Iterable

from mita.model.flow import Arrival
from mita.model.job import Claim
from mita.model.outcome import Settlement
from mita.rules.flow import GATHER_TASK, ONE_SUCCESS, UNREADABLE_VALUE
from mita.rules.flow_plan import read_spec

REMEMBERED_JOBS = 10_000
LONGEST_REMEMBERED_BYTES = 10_000  # of what a job was told
MOST_REMEMBERED_BYTES = 16_000_000


class ToldHere:
    """What this process has told, so that it does not read or tell it again.

    It knows what jobs with one predecessor were told: no other job tells them anything, so their
    own runs need not read it. It counts the successes that flows were told: a flow of which all
    steps have succeeded here need not read that. `counted` are the steps that have told their
    counter before they were settled, and whether that was the first time.

    It forgets the oldest if there are too many, and then the store is asked."""

    def __init__(self) -> None:
        self.counted: dict[str, bool] = {}
        self._values: dict[str, bytes] = {}  # by the id of the job that was told
        self._bytes = 0  # of them
        self._successes: dict[str, int] = {}  # by the id of the flow

    def settled(self, written: Iterable[Settlement], untold: Collection[Arrival]) -> None:
        """These settlements were written, and what they tell with them was told, but for
        `untold`."""
        before = {(arrival.sender, arrival.receiver) for arrival in untold}
        for one in written:
            if not one.arrivals:
                continue
            is_first = True
            if before and one.claim.task != GATHER_TASK:
                last = one.arrivals[-1]  # it is for the counter
                is_first = (last.sender, last.receiver) not in before
            self.counted[one.claim.id] = is_first
            for arrival in one.arrivals:
                if not before or (arrival.sender, arrival.receiver) not in before:
                    self.remember(arrival)

    def has_ended(self, settlement: Settlement) -> bool:
        """Whether this step has told everything that it has to tell, with its settlement."""
        if settlement.arrivals and self.counted.get(settlement.claim.id):
            del self.counted[settlement.claim.id]
            return True
        return False

    def remember(self, arrival: Arrival) -> None:
        """Keep what was told, for a while. Nobody has told it before."""
        value = arrival.value
        if value == ONE_SUCCESS:
            successes = self._successes
            if len(successes) >= REMEMBERED_JOBS and arrival.receiver not in successes:
                del successes[next(iter(successes))]
            successes[arrival.receiver] = successes.get(arrival.receiver, 0) + 1
        elif arrival.needs == 1 and len(value) <= LONGEST_REMEMBERED_BYTES:
            values = self._values
            while len(values) >= REMEMBERED_JOBS or self._bytes >= MOST_REMEMBERED_BYTES:
                self.take(next(iter(values)))
            values[arrival.receiver] = value
            self._bytes += len(value)

    def take(self, id: str) -> bytes | None:
        """What the only predecessor of this job has told it; None if that is not known. It is
        forgotten then."""
        value = self._values.pop(id, None)
        if value is not None:
            self._bytes -= len(value)
        return value

    def all_succeeded(self, flow: Claim) -> bool:
        """Whether all steps of this flow have succeeded and told it so, all of them here. It is
        forgotten then."""
        count = self._successes.pop(flow.id, 0)
        try:
            return count > 0 and count >= read_spec(flow.payload).needs
        except UNREADABLE_VALUE:
            return False
