"""Limits: the conditions under which a job may start, as a job and as a store keep them."""

from typing import Annotated, TypeAlias

from msgspec import Meta, Struct

MOST_HOLDERS = 2**31 - 1
Limit: TypeAlias = Annotated[int, Meta(ge=1, le=MOST_HOLDERS)]
# A rate as the time between two starts. The longest is a year; 0 means that there is no rate.
LONGEST_INTERVAL_US = 366 * 86_400 * 1_000_000
Interval: TypeAlias = Annotated[int, Meta(ge=0, le=LONGEST_INTERVAL_US)]


class Gate(Struct, frozen=True, array_like=True, gc=False):
    """A condition of a job beside its resource key. At most `limit` jobs with this key run at once
    (None: any number). Their starts are `interval_us` microseconds apart on average (0: no rate),
    and `burst` of them may come at once. Like a resource key, the key belongs to the job's
    queue."""

    key: str
    limit: Limit | None = None
    interval_us: Interval = 0
    burst: Limit = 1


class StoredLimit(Struct, frozen=True, array_like=True):
    """A limit that an operator has set for a queue or for a key. For a key it replaces what the
    jobs say. None and 0 leave that part as the jobs say it. `concurrency=0` stops all starts."""

    concurrency: Annotated[int, Meta(ge=0, le=MOST_HOLDERS)] | None = None
    interval_us: Interval = 0
    burst: Limit = 1
