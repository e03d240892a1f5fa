"""What a store remembers of its queues from one claim to the next. Every claim checks it, so what
is remembered only decides which statement comes first."""

from mita.model.time import Wait


class ClaimHints:
    """`limited` are the queues that have holds or ever had limits; of these, `careful` have a limit
    or jobs of fair groups. `mixed`: jobs of several priorities are due that age. `ageing` is that
    of the store."""

    def __init__(self) -> None:
        self.ageing: Wait | None = None
        self.limited: frozenset[str] = frozenset()
        self.careful: frozenset[str] = frozenset()
        self.mixed = False

    def saw(self, queues: list[str], *, is_limited: bool, careful: list[str] | None) -> None:
        """A claim of these queues has found whether they are limited, and which of them are to be
        claimed with care."""
        limited = self.limited.difference(queues)
        self.limited = limited.union(queues) if is_limited else limited
        self.careful = self.careful.difference(queues).union(careful or ())
