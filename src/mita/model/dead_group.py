"""Groups of failed jobs as people see them."""

from datetime import datetime

from msgspec import Struct


class DeadGroup(Struct, frozen=True, kw_only=True):
    """Failed jobs of one task whose errors are alike: they have the same type, come from the same
    function, and their messages differ only in numbers, ids, quoted texts, paths, addresses and
    times. `group` is the fingerprint by which the filter `group=` chooses them. It is empty for
    failed jobs without a fingerprint: they failed before Mita made fingerprints, or their records
    cannot be read. Then the other fields describe only the sample.

    `count` is how many jobs the group has now, `first` and `last` are when the first and the last
    of them failed. `sample` is the id of a job that failed last; `task` and `queue` are its task
    and its queue (other jobs of the group may be in other queues). `error_type`, `message` and
    `frame` say what the errors have in common: `message` has placeholders such as <number>, and is
    empty if the task is secret; `frame` is the innermost function of your code. `hours` are how
    many jobs failed in each of the last 24 hours, the oldest hour first."""

    group: str
    count: int
    first: datetime
    last: datetime
    sample: str
    task: str = ""
    queue: str = ""
    error_type: str = ""
    message: str = ""
    frame: str = ""
    hours: tuple[int, ...] = ()
