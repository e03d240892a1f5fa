"""Where notes arrive, and who gets them."""

import threading

from .notes import Note, Tell


class Watch:
    """One for each app. With nobody watching, a note is dropped as it comes."""

    def __init__(self) -> None:
        self._changing = threading.Lock()
        self.sinks: tuple[Tell, ...] = ()  # replaced, never changed: engines on other threads are reading it

    def add(self, sink: Tell) -> None:
        with self._changing:
            self.sinks = (*self.sinks, sink)

    def remove(self, sink: Tell) -> None:
        with self._changing:
            self.sinks = tuple(one for one in self.sinks if one != sink)

    def tell(self, note: Note) -> None:
        """Called on the engine's own loop: a sink must be quick, and must not raise."""
        for sink in self.sinks:
            sink(note)
