"""Handlers that reschedule themselves without a delay, again and again."""

from mita.model.job import Claim
from mita.model.time import SECOND, Wait, When

from .expiry import milliseconds

FREE_MOVES = 10  # reschedules of a job before it is slowed
SHORTEST_DELAY_MS: Wait = 100  # a reschedule to an earlier time than this counts as no delay
SLOWED_ROUND_MS: Wait = SECOND  # from one start of a slowed job to the next
SLOWED = "slowed to one run per second"  # so the timeline line begins


def slowed_delay(claim: Claim, when: When, spent: float) -> Wait | None:
    """Returns the delay of a job whose handler moved it to `when`, if that is too soon; None: it is
    not. A job that was moved `FREE_MOVES` times and asks for no delay runs once per second at
    most. `spent` is how many seconds ago the job was claimed."""
    if claim.reschedules < FREE_MOVES:
        return None
    passed = milliseconds(spent)
    now = claim.at + passed
    wanted = when.moment(now) - now
    delay = SLOWED_ROUND_MS - passed
    return delay if wanted < SHORTEST_DELAY_MS and wanted < delay else None
