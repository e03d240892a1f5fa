"""The options that are stored with a job."""

from functools import lru_cache

import msgspec

from mita.errors import UsageError
from mita.model.policy import JobOptions
from mita.model.time import LONGEST, SECOND

_decode_options = msgspec.msgpack.Decoder(JobOptions).decode


@lru_cache(maxsize=4096)
def options_of(packed: bytes) -> JobOptions:
    """Returns the options stored with a job. Nearly all jobs share a few, so few are decoded.
    Options that cannot be read become the defaults, and secret, which they may have been: a job is
    never lost because of them."""
    try:
        options = _decode_options(packed) if packed else JobOptions()
        # NaN is not within bounds either
        if options.timeout is None or 0 < options.timeout * SECOND <= LONGEST:
            return options
    except (msgspec.MsgspecError, ValueError, RecursionError, UsageError):
        # UsageError: options of a newer version
        pass
    return JobOptions(secret=True)
