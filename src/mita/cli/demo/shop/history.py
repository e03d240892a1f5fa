"""How many runs the shop had, minute by minute: far more than the jobs that are still stored."""

import math
import random

from mita.model.history import RunCounts
from mita.model.time import HOUR, MINUTE, Moment, Wait
from mita.ports.store import Store

# runs per minute at noon, and how long one waits and runs, by queue and task
_BUSY = {
    ("mail", "send_receipt"): (14, 90, 340),
    ("payments", "charge_card"): (8, 140, 900),
    ("images", "resize_image"): (4, 1_900, 4_200),
    ("stock", "sync_stock"): (1, 60, 2_600),
}
NIGHT_SHARE = 0.25  # of the runs at noon
INCIDENT_AGO: Wait = 150 * MINUTE  # since when the gateway does not answer


async def count_minutes(store: Store, now: Moment, end: Moment, minutes: int) -> None:
    """Count the runs of so many minutes, at the minute of the store's clock."""
    chance = random.Random(now // MINUTE - end // MINUTE)
    hours_ago = (end - now) / HOUR
    share = NIGHT_SHARE + (1 - NIGHT_SHARE) * (0.5 + 0.5 * math.cos(hours_ago * math.tau / 24))
    is_broken = end - now < INCIDENT_AGO
    counts = []
    for (queue, task), (per_minute, wait_ms, run_ms) in _BUSY.items():
        runs = max(1, round(per_minute * minutes * share * chance.uniform(0.7, 1.3)))
        bad = 0.4 if is_broken and task == "charge_card" else 0.015
        failed = round(runs * bad * chance.uniform(0.2, 1.0))
        counts.append(
            RunCounts(
                queue=queue,
                task=task,
                succeeded=runs - failed,
                failed=failed // 3,
                retried=failed - failed // 3,
                run_ms=runs * run_ms,
                wait_ms=runs * wait_ms,
            )
        )
    await store.count_runs(counts)
