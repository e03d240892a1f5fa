"""The settings that travel with a job."""

from functools import lru_cache

import msgspec

from mita.errors import UsageError
from mita.model.policy import JobOptions

_decode_options = msgspec.msgpack.Decoder(JobOptions).decode


@lru_cache(maxsize=4096)
def options_of(packed: bytes) -> JobOptions:
    """The settings stored with a job. Nearly all jobs share a few, so nearly none is decoded. What cannot be read is taken
    as the defaults: a job is never lost over its settings."""
    try:
        return _decode_options(packed) if packed else JobOptions()
    except (msgspec.MsgspecError, ValueError, UsageError):  # the last: what a newer version allows
        return JobOptions()
