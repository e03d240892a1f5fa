"""A queue whose queued jobs are all of one group. Its jobs start in their own order, so a claim
costs hardly more than in a queue without groups. Queues with several groups are in `turns`."""

from msgspec import Struct

from mita.model.job import MOST_WEIGHT_THOUSANDTHS, NORMAL_WEIGHT_THOUSANDTHS
from mita.rules.shares import NO_GROUP, finish_tag, start_tag
from mita.stores.sqlite.codec import is_text
from mita.stores.sqlite.context import SqliteContext

from .key_states import as_number_us
from .turns import store_turns

NO_CANDIDATES = "[]"


class LoneGroup(Struct):
    """The only group of a queue in one transaction. `virtual` and `finished` are the virtual times
    of the queue and of the group, `known` is the number of groups whose time is stored.
    `weight` is that of all jobs that were read. `is_mixed`: the next ones have another weight, and
    were not read."""

    queue: str
    priority: int
    fair: str | None
    virtual: int
    finished: int
    known: int
    weight: int | None = None
    is_mixed: bool = False

    def candidates(self, context: SqliteContext, limit: int) -> str:
        """The next due jobs as one text, in the order in which they start. Jobs of different
        weights are not read together."""
        which = {"queue": self.queue, "priority": self.priority, "fair": self.fair}
        text, lightest, heaviest = context.row(
            "claim_lone_candidates", now=context.now, limit=limit, **which
        )
        if lightest is None:
            return NO_CANDIDATES
        if self.fair is not None:
            weight = self.weight or lightest
            if not lightest == weight == heaviest or not _is_weight(weight):
                self.is_mixed = True
                return NO_CANDIDATES
            self.weight = weight
        return str(text)

    def started(self, context: SqliteContext, starts: int) -> None:
        """So many jobs have started. If no other group has a virtual time, only the distance
        between the two times counts: it is stored if it has changed."""
        if not starts:
            return
        step = finish_tag(0, self.weight or NORMAL_WEIGHT_THOUSANDTHS)
        if self.known == 1 and self.finished - self.virtual == step:
            return
        virtual = start_tag(self.virtual, self.finished) + (starts - 1) * step
        store_turns(context, self.queue, self.priority, virtual, {_name(self.fair): virtual + step})


def find(context: SqliteContext, queue: str) -> LoneGroup | None:
    """The group of all queued jobs of a queue; None if there are several groups, or none."""
    found = context.row("claim_lone_group", queue=queue)
    if found is None:
        return None
    priority, fair, virtual, finished, known = found
    if not isinstance(priority, int) or (fair is not None and not is_text([fair])):
        return None
    return LoneGroup(queue, priority, fair, as_number_us(virtual), as_number_us(finished), known)


def _name(fair: str | None) -> str:
    return NO_GROUP if fair is None else fair


def _is_weight(found: object) -> bool:
    return isinstance(found, int) and 1 <= found <= MOST_WEIGHT_THOUSANDTHS
