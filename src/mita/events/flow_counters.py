"""Counters of flows."""

from collections import Counter

from mita.model.event import EventBatch
from mita.rules.states import TERMINAL

from .histogram import DAYS_BOUNDS, Histogram

MOST_FLOW_NAMES = 200  # flows of other names are counted together
OTHER_FLOWS = "(others)"


class FlowCounts:
    """How many flows have started and ended, and how long they took, by the name of the flow."""

    def __init__(self) -> None:
        self.started: Counter[str] = Counter()
        self.ended: Counter[tuple[str, str]] = Counter()  # name and state
        self.seconds: dict[str, Histogram] = {}
        self._names: set[str] = set()

    def start(self, name: str) -> None:
        """Count a flow that was enqueued."""
        self.started[self.label_of(name)] += 1

    def end(self, batch: EventBatch) -> None:
        """Count the flows of a `flow_ended` batch."""
        name = self.label_of(batch.name)
        self.ended[name, batch.state] += len(batch.ids)
        self.seconds.setdefault(name, Histogram(DAYS_BOUNDS)).add_all(batch.seconds)

    def add_to(self, total: "FlowCounts") -> None:
        """Add all numbers to `total`."""
        for name, count in self.started.items():
            total.started[total.label_of(name)] += count
        for (name, state), count in self.ended.items():
            total.ended[total.label_of(name), state] += count
        for name, seconds in self.seconds.items():
            known = total.label_of(name)
            total.seconds.setdefault(known, Histogram(DAYS_BOUNDS)).merge(seconds)

    def label_of(self, name: str) -> str:
        """The label of a flow. Beyond `MOST_FLOW_NAMES` names, all others share one."""
        if name not in self._names:
            if len(self._names) >= MOST_FLOW_NAMES:
                return OTHER_FLOWS
            self._names.add(name)
            # Prometheus sees the first flow of each state only if there was a 0 before
            self.ended.update({(name, state.value): 0 for state in TERMINAL})
        return name
