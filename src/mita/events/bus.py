"""Where signals arrive, and which sinks get them."""

import threading

from mita import forks
from mita.model.event import Kind

from .listener import Listener, ListenerThread
from .signals import Emit, Signal


class EventBus:
    """One for each app. Without sinks a signal is dropped at once."""

    def __init__(self) -> None:
        self._changing = forks.guarded(threading.Lock())
        self._listening: list[ListenerThread] = []
        self._lost = 0
        # replaced, never changed: engines on other threads are reading it
        self.sinks: tuple[Emit, ...] = ()

    def listen(self, listener: Listener, kinds: frozenset[Kind]) -> ListenerThread:
        """Start a thread that hands events of these kinds to `listener`."""
        listening = ListenerThread(listener, kinds, self._leave)
        self._listening.append(listening)
        self.add(listening.put)
        return listening

    def _leave(self, listening: ListenerThread) -> None:
        self.remove(listening.put)
        with self._changing:
            if listening in self._listening:
                self._listening.remove(listening)
                self._lost += listening.dropped

    def dropped(self) -> int:
        """Returns how many events listeners were too slow for, including listeners that have
        stopped."""
        with self._changing:
            return self._lost + sum(listening.dropped for listening in self._listening)

    def add(self, sink: Emit) -> None:
        """Add a sink: a function that is called with every signal."""
        with self._changing:
            self.sinks = (*self.sinks, sink)

    def remove(self, sink: Emit) -> None:
        """Remove a sink."""
        with self._changing:
            self.sinks = tuple(one for one in self.sinks if one != sink)

    def emit(self, signal: Signal) -> None:
        """Hand a signal to every sink, on the engine's own event loop: a sink must be quick and
        must not raise."""
        for sink in self.sinks:
            sink(signal)
