"""Job ids as people type them: the first digits, as many as are unique. An id that the caller of
`enqueue` chose is typed whole.

A step of a flow has the id of its flow, a point and six digits. People type the beginning of the
flow's id and the number: `01a1de75c0de.7`. A child job has the id of its parent, a point and twelve
digits, which people type whole. Steps that a handler has added have a new id, the word `added` and
a number: `01a1de75c0de.added.7`."""

import re
from collections.abc import Iterable, Sequence
from itertools import takewhile

ID_DIGITS = 32
STEP_DIGITS, _CHILD_DIGITS = 6, 12
_ADDED = "added"
_OURS = re.compile(rf"[0-9a-f]{{{ID_DIGITS}}}")
_CHOSEN = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]{0,63}(\.([0-9a-f]{12}|[0-9a-f]{32}))*")
# The first digits hold the time at which the job was made. No later job begins with the same
# digits, so a unique beginning stays unique.
TIME_DIGITS = 12


def is_id_prefix(text: str) -> bool:
    """Whether the text can be an id, or the beginning of one and the numbers of a step."""
    first, *rest = text.split(".")
    if not 0 < len(first) <= ID_DIGITS:
        return False
    is_hex = set(text) <= set("0123456789abcdef.")
    return is_hex and all(
        part == _ADDED or len(part) == _CHILD_DIGITS or _is_number(part) for part in rest
    )


def may_be_chosen(text: str) -> bool:
    """Whether the text can be a whole id that a caller chose, or that of a child of its job."""
    return _CHOSEN.fullmatch(text) is not None


def is_ours(id: str) -> bool:
    """Whether an id has the form of those that no caller chose, so that it can be shortened."""
    return _OURS.fullmatch(first_part(id)) is not None


def _is_number(part: str) -> bool:
    return part.isdecimal() and len(part) <= STEP_DIGITS


def first_part(id: str) -> str:
    """The id without the numbers of steps and children: of a step it is the id of its flow."""
    return id.partition(".")[0]


def whole_rest(text: str) -> str:
    """What follows the first part of an id, with all of its digits: `.7` is `.000007`."""
    _, *rest = text.split(".")
    return "".join(f".{part.zfill(STEP_DIGITS) if _is_number(part) else part}" for part in rest)


def _short_rest(id: str) -> str:
    _, *rest = id.split(".")
    return "".join(f".{int(part) if len(part) == STEP_DIGITS else part}" for part in rest)


def first_id_after(start: str) -> str | None:
    """The first id after all ids that begin with these digits."""
    following = f"{int(start, 16) + 1:0{len(start)}x}"
    return following.ljust(ID_DIGITS, "0") if len(following) == len(start) else None


def shortened(ids: Iterable[str], neighbours: Sequence[str], *, complete: bool) -> dict[str, str]:
    """Return the shortest unique beginning of each id; of a step also its number.

    `neighbours` are all ids of the store from the time of the first one, newest first;
    `complete`: they go down to the oldest. An id that is not among them keeps all its digits,
    because its neighbours are not known. So does an id that the caller chose."""
    firsts = list(dict.fromkeys(first_part(id) for id in neighbours if is_ours(id)))
    position = {id: at for at, id in enumerate(firsts)}
    last = len(firsts) if complete else len(firsts) - 1
    short = {id: id[: _needed(id, at, firsts)] if at < last else id for id, at in position.items()}
    return {id: short.get(first_part(id), first_part(id)) + _short_rest(id) for id in ids}


def _needed(id: str, at: int, neighbours: Sequence[str]) -> int:
    adjacent = [*neighbours[max(at - 1, 0) : at], *neighbours[at + 1 : at + 2]]
    return max([TIME_DIGITS, *(_shared(id, other) + 1 for other in adjacent)])


def _shared(one: str, other: str) -> int:
    return sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], zip(one, other, strict=True)))
