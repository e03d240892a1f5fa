"""Windows that a repeat drops, because of its policy or its cap. Their number is kept in the
repeat's reason, so that every store shows it."""

import re
from collections.abc import Callable, Iterator
from itertools import islice, takewhile
from typing import TypeAlias

from mita.model.pattern import Every, RepeatSpec
from mita.model.time import Moment
from mita.rules.display import as_datetime

Walk: TypeAlias = Callable[[RepeatSpec, Moment, Moment], Iterator[Moment]]

MOST_COUNTED_WINDOWS = 1000  # of one cron line and one gap: its windows have to be walked through

_NOTE = re.compile(
    r"(?:^|; )(\d+) windows? dropped so far, most recently at (\d{4}-\d\d-\d\d \d\d:\d\d:\d\d UTC)$"
)


def count(spec: RepeatSpec, after: Moment, upto: Moment, walk: Walk) -> int:
    """Returns how many windows are later than the window `after` and not later than `upto`."""
    if isinstance(spec.pattern, Every):
        end = upto if spec.end_before is None else min(upto, spec.end_before - 1)
        return max(0, (end - after) // spec.pattern.interval)
    return sum(
        1
        for _ in islice(
            takewhile(lambda time: time <= upto, walk(spec, after, after)), MOST_COUNTED_WINDOWS
        )
    )


def dropped(reason: str) -> int:
    """Returns how many windows the repeat with this reason has dropped so far."""
    found = _NOTE.search(reason)
    return int(found[1]) if found else 0


def without_note(reason: str) -> str:
    """Returns the reason without the number of dropped windows."""
    return _NOTE.sub("", reason)


def with_note(reason: str, before: str, more: int, now: Moment) -> str:
    """Returns the reason with the number of dropped windows: those of the earlier reason, and
    `more`."""
    total, found = dropped(before) + more, _NOTE.search(before)
    if not total:
        return reason
    then = f"{as_datetime(now):%Y-%m-%d %H:%M:%S} UTC" if more > 0 or found is None else found[2]
    note = f"{total} window{'' if total == 1 else 's'} dropped so far, most recently at {then}"
    return f"{reason}; {note}" if reason else note
