"""Fair shares: whose turn it is in a queue.

Jobs of one queue and priority that share the name `fair` are a group; jobs without it are one group
more. The group with the smallest virtual time starts its next job. A start moves the group's
virtual time by one step, and by less if its weight is higher. So of k groups with ready jobs and
one weight, each gets one start in every k. A group that was idle begins at the current virtual
time: it goes next, but it gets nothing for the time in which it had no jobs.

A queue counts turns from its first job with `fair` on. Before that there is nothing to count, so
that queues without groups pay nothing.
"""

from mita.model.job import NORMAL_WEIGHT_THOUSANDTHS

TURN_STEPS = 1_000_000  # the virtual time of one start with weight 1
NO_GROUP = ""  # the group of the jobs without `fair`


def start_tag(virtual: int, finished: int) -> int:
    """The virtual time at which a group starts its next job: `virtual` is the time of the queue and
    priority, `finished` the group's own (0 for a group that is not known)."""
    return max(virtual, finished)


def finish_tag(start: int, weight: int) -> int:
    """The virtual time of a group after a start at `start` with this weight."""
    return start + TURN_STEPS * NORMAL_WEIGHT_THOUSANDTHS // weight
