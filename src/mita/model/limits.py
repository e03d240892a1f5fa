"""Limits as people write them: a key with a limit, and a rate."""

from datetime import timedelta

from msgspec import Struct
from msgspec.structs import force_setattr

from mita.errors import UsageError

from .gate import LONGEST_INTERVAL_US, MOST_HOLDERS, StoredLimit

LONGEST_PERIOD_S = 366 * 86_400


class Key(Struct, frozen=True):
    """A resource key with its own limit: at most `limit` jobs that name it run at once. The name
    may be a template like `"account:{account}"`."""

    name: str
    limit: int = 1

    def __post_init__(self) -> None:
        check_count("Key limit", self.limit)


class Rate(Struct, frozen=True):
    """At most `limit` starts in `per` seconds, over all workers and on the store's clock: in any
    time T no more than `limit · T / per + burst`.

    `key` may be a template like `"host:{host}"`: then each key has its own rate. Without a key the
    rate belongs to the task. `burst` is how many jobs may start at once after a pause."""

    limit: int
    per: float | timedelta = 1.0
    key: str | None = None
    burst: int = 1

    def __post_init__(self) -> None:
        check_count("Rate limit", self.limit)
        check_count("Rate burst", self.burst)
        per = self.per.total_seconds() if isinstance(self.per, timedelta) else self.per
        if isinstance(per, bool) or not isinstance(per, int | float) or not per > 0:
            raise UsageError(
                f"Rate(per={self.per!r}): give a period of more than 0 seconds, for example "
                "Rate(10, per=1) for 10 starts in one second"
            )
        if per > LONGEST_PERIOD_S:
            raise UsageError(f"Rate(per={self.per!r}): the period is a year at most")
        if self.limit > per * 1_000_000:
            raise UsageError(
                f"Rate({self.limit}, per={per:g}): a rate is at most one start per microsecond"
            )
        force_setattr(self, "per", float(per))

    @property
    def interval_us(self) -> int:
        """The time between two starts, in microseconds. It is rounded up, so that there are never
        more starts than the rate allows."""
        per = self.per.total_seconds() if isinstance(self.per, timedelta) else self.per
        return min(-(-round(per * 1_000_000) // self.limit), LONGEST_INTERVAL_US)


def check_count(what: str, value: object) -> None:
    """Raise `UsageError` unless a value is a whole number, 1 or more."""
    if isinstance(value, bool) or not isinstance(value, int) or not 1 <= value <= MOST_HOLDERS:
        most = "" if not isinstance(value, int) or value < 1 else f", {MOST_HOLDERS:,} at most"
        raise UsageError(f"{what} {value!r}: give a whole number, 1 or more{most}")


def stored_limit(concurrency: int | None, rate: Rate | None) -> StoredLimit | None:
    """What is stored for a queue or a key; None if there is nothing to limit. Raises `UsageError`
    for values that are no limits."""
    if rate is not None and (not isinstance(rate, Rate) or rate.key is not None):
        raise UsageError(
            f"rate={rate!r}: give a Rate without a key, for example Rate(100, per=1); the key is "
            "that of the limit"
        )
    if concurrency is None and rate is None:
        return None
    is_number = isinstance(concurrency, int) and not isinstance(concurrency, bool)
    if concurrency is not None and (not is_number or not 0 <= concurrency <= MOST_HOLDERS):
        raise UsageError(
            f"concurrency={concurrency!r}: give a whole number from 0 to {MOST_HOLDERS:,}; 0 "
            "starts no jobs, and None means any number"
        )
    if rate is None:
        return StoredLimit(concurrency)
    return StoredLimit(concurrency, rate.interval_us, rate.burst)
