"""Lists of ids."""

from collections.abc import Sequence


def without_repeats(ids: Sequence[str]) -> list[list[str]]:
    """The ids in pieces in which no id occurs twice: the second change of a job must see what the
    first has changed."""
    pieces: list[list[str]] = []
    met: set[str] = set()
    for id in ids:
        if not pieces or id in met:
            pieces.append([])
            met = set()
        pieces[-1].append(id)
        met.add(id)
    return pieces
