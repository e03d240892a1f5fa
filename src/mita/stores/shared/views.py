"""What people see of resource keys, from what a database has of them."""

from collections.abc import Mapping, Sequence
from typing import TypeAlias

from mita.model.time import Moment
from mita.model.view import Holder, ResourceView

Place: TypeAlias = tuple[str, str]  # a queue, and a key in it


def resource_views(
    holders: Mapping[Place, Sequence[Holder]], waiting: Mapping[Place, int], held: Mapping[Place, Moment]
) -> list[ResourceView]:
    """One for each key that somebody has or waits for, or that is on hold."""
    return [
        ResourceView(
            queue=place[0],
            key=place[1],
            holders=tuple(holders.get(place, ())),
            waiting=waiting.get(place, 0),
            held_until=held.get(place),
        )
        for place in sorted({*holders, *waiting, *held})
    ]
