"""What jobs tell others in the operation that settles them."""

from collections.abc import Sequence

from mita.model.flow import Arrival
from mita.model.outcome import Answer, Settlement


def told_by(settlements: Sequence[Settlement], took: Sequence[bool]) -> list[Arrival]:
    """The arrivals of the settlements that were written."""
    written = (one for one, yes in zip(settlements, took, strict=True) if yes)
    return [arrival for one in written for arrival in one.arrivals]


def not_done(arrivals: Sequence[Arrival], answers: Sequence[Answer]) -> list[Arrival]:
    """The arrivals that were not stored."""
    told = zip(arrivals, answers, strict=True)
    return [arrival for arrival, answer in told if answer is not Answer.DONE]
