"""What a store remembers of its queues from one claim to the next. Every claim checks it, so what
is remembered only decides which statement comes first."""

from mita.model.time import Wait


class ClaimHints:
    """`careful` are the queues that have a limit or jobs of fair groups. `mixed`: jobs of several
    priorities are due that age. `ageing` is that of the store."""

    def __init__(self) -> None:
        self.ageing: Wait | None = None
        self.careful: frozenset[str] = frozenset()
        self.mixed = False

    def saw(self, queues: list[str], careful: list[str] | None) -> None:
        """A claim of these queues has found that these are to be claimed with care."""
        if careful or self.careful:
            self.careful = self.careful.difference(queues).union(careful or ())
