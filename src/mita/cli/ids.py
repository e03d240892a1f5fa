"""Job ids as people type them: the first digits, as many as are unique."""

from collections.abc import Iterable, Sequence
from itertools import takewhile

ID_DIGITS = 32
# digits that hold the time of making. No later job can begin with the same, so what is unique stays
# so.
TIME_DIGITS = 12


def is_beginning(text: str) -> bool:
    """Whether the text can be the first digits of an id."""
    return 0 < len(text) <= ID_DIGITS and set(text) <= set("0123456789abcdef")


def behind(start: str) -> str | None:
    """The first id after all ids that begin with these digits."""
    following = f"{int(start, 16) + 1:0{len(start)}x}"
    return following.ljust(ID_DIGITS, "0") if len(following) == len(start) else None


def shortened(ids: Iterable[str], around: Sequence[str], *, whole: bool) -> dict[str, str]:
    """Return the shortest unique beginning of each id.

    `around` are all ids of the store from the time of the first one, newest first; `whole`: they go
    down to the oldest. An id that is not among them keeps all its digits, because its neighbours
    are not known."""
    place = {id: at for at, id in enumerate(around)}
    last = len(around) if whole else len(around) - 1
    return {
        id: id[: _needed(id, place[id], around)] if place.get(id, last) < last else id for id in ids
    }


def _needed(id: str, at: int, around: Sequence[str]) -> int:
    beside = [*around[max(at - 1, 0) : at], *around[at + 1 : at + 2]]
    return max([TIME_DIGITS, *(_shared(id, other) + 1 for other in beside)])


def _shared(one: str, other: str) -> int:
    return sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], zip(one, other, strict=True)))
