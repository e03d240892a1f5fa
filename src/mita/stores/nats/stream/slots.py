"""The slots of tickets. Each slot of a queue has its own consumer.

A slot stands for a priority and a lane (`lanes`), or it is the slot of wake tickets. Priorities 0
to 9 are the oldest: their slot is the priority, plus ten for each lane. The other priorities have
slots from 2000 on, plus a thousand for each lane. So a stream from the time when there were ten
priorities keeps its subjects and its consumers."""

from collections.abc import Iterable

from mita.stores.nats.codec import MOST_LANES, NatsJob

WAKE_SLOT = 1000  # the slot of wake tickets
_FIRST_PRIORITIES = range(10)
_ALL_PRIORITIES = range(-100, 101)
_FIRST_LANE_SLOTS = 10  # slots of one lane
_RESERVED_SLOTS = 2000  # for the first priorities and for wake tickets
_OTHER_LANE_SLOTS = 1000


def slot_of(record: NatsJob) -> int:
    """Returns the slot of a job's ticket."""
    priority, lane = record.priority, record.lane
    if not lane and 0 <= priority <= 9:  # nearly every job
        return priority
    return ticket_slot(priority, lane)


def ticket_slot(priority: int, lane: int) -> int:
    """Returns the slot of the tickets of a priority and lane; lane 0 is that of jobs without a
    group."""
    if priority in _FIRST_PRIORITIES:
        return priority + _FIRST_LANE_SLOTS * lane
    return _RESERVED_SLOTS + priority - _ALL_PRIORITIES[0] + _OTHER_LANE_SLOTS * lane


def priority_of(slot: int) -> int:
    """Returns the priority of the jobs whose tickets have this slot."""
    return _meaning(slot)[0]


def is_slot(slot: int) -> bool:
    """True if tickets may have this slot."""
    if slot == WAKE_SLOT:
        return True
    priority, lane = _meaning(slot)
    in_range = slot >= 0 and priority in _ALL_PRIORITIES and lane <= MOST_LANES
    return in_range and ticket_slot(priority, lane) == slot


def _meaning(slot: int) -> tuple[int, int]:
    """Returns the priority and the lane of a slot."""
    if slot < _RESERVED_SLOTS:
        lane, priority = divmod(slot, _FIRST_LANE_SLOTS)
        return priority, lane
    lane, at = divmod(slot - _RESERVED_SLOTS, _OTHER_LANE_SLOTS)
    return at + _ALL_PRIORITIES[0], lane


def job_slots(slots: Iterable[int]) -> list[int]:
    """Returns those of these slots that are of jobs."""
    return [slot for slot in slots if slot != WAKE_SLOT]
