"""The settings that travel with a job."""

from functools import lru_cache

import msgspec

from mita.errors import UsageError
from mita.model.policy import JobOptions
from mita.model.time import LONGEST, SECOND

_decode_options = msgspec.msgpack.Decoder(JobOptions).decode


@lru_cache(maxsize=4096)
def options_of(packed: bytes) -> JobOptions:
    """The settings stored with a job. Nearly all jobs share a few, so nearly none is decoded. What
    cannot be read is taken as the defaults, and as secret, which it may be: a job is never lost
    over its settings."""
    try:
        options = _decode_options(packed) if packed else JobOptions()
        # not a number is not within bounds either
        if options.timeout is None or 0 < options.timeout * SECOND <= LONGEST:
            return options
    except (msgspec.MsgspecError, ValueError, RecursionError, UsageError):
        # the last: what a newer version allows
        pass
    return JobOptions(secret=True)
