"""Job ids as people type them: the first digits, as many as are unique."""

from collections.abc import Iterable, Sequence
from itertools import takewhile

ID_DIGITS = 32
# The first digits hold the time at which the job was made. No later job begins with the same
# digits, so a unique beginning stays unique.
TIME_DIGITS = 12


def is_id_prefix(text: str) -> bool:
    """Whether the text can be the first digits of an id."""
    return 0 < len(text) <= ID_DIGITS and set(text) <= set("0123456789abcdef")


def first_id_after(start: str) -> str | None:
    """The first id after all ids that begin with these digits."""
    following = f"{int(start, 16) + 1:0{len(start)}x}"
    return following.ljust(ID_DIGITS, "0") if len(following) == len(start) else None


def shortened(ids: Iterable[str], neighbours: Sequence[str], *, complete: bool) -> dict[str, str]:
    """Return the shortest unique beginning of each id.

    `neighbours` are all ids of the store from the time of the first one, newest first;
    `complete`: they go down to the oldest. An id that is not among them keeps all its digits,
    because its neighbours are not known."""
    position = {id: at for at, id in enumerate(neighbours)}
    last = len(neighbours) if complete else len(neighbours) - 1
    return {
        id: id[: _needed(id, position[id], neighbours)] if position.get(id, last) < last else id
        for id in ids
    }


def _needed(id: str, at: int, neighbours: Sequence[str]) -> int:
    adjacent = [*neighbours[max(at - 1, 0) : at], *neighbours[at + 1 : at + 2]]
    return max([TIME_DIGITS, *(_shared(id, other) + 1 for other in adjacent)])


def _shared(one: str, other: str) -> int:
    return sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], zip(one, other, strict=True)))
