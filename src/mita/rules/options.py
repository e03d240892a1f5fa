"""The options that are stored with a job."""

from functools import lru_cache

import msgspec
from msgspec.structs import replace

from mita.errors import UsageError
from mita.model.flow import FlowPlace
from mita.model.policy import JobOptions
from mita.model.time import LONGEST, SECOND, Moment, When

# The options of a job that chose none. Nothing has to be decoded to judge such a job.
PLAIN_OPTIONS = msgspec.msgpack.encode(JobOptions())
_decode_options = msgspec.msgpack.Decoder(JobOptions).decode
_encode = msgspec.msgpack.Encoder().encode


@lru_cache(maxsize=4096)
def options_of(packed: bytes) -> JobOptions:
    """Returns the options stored with a job. Nearly all jobs share a few, so few are decoded.
    Options that cannot be read become the defaults, and secret, which they may have been: a job is
    never lost because of them."""
    try:
        options = _decode_options(packed) if packed else JobOptions()
        if _are_sound(options):
            return options
    except (msgspec.MsgspecError, ValueError, RecursionError, UsageError):
        # UsageError: options of a newer version
        pass
    return JobOptions(secret=True)


@lru_cache(maxsize=4096)
def may_come_too_late(packed: bytes) -> bool:
    """Whether a job with these options may have to end without a run: it expires, or it has a
    deadline."""
    options = options_of(packed)
    return options.expires is not None or options.deadline is not None


def _are_sound(options: JobOptions) -> bool:
    """Whether all lengths of time are within bounds; NaN is not."""
    most = options.max_reschedules
    if most is not None and most < 1:
        return False
    for length in (options.timeout, options.expires, options.deadline):
        if length is not None and not 0 < length * SECOND <= LONGEST:
            return False
    return True


def with_first_due(packed: bytes, due: Moment) -> bytes:
    """Returns the options of a job that is due later than it is made: a deadline is counted from
    then. Options without a deadline stay as they are."""
    options = options_of(packed)
    if options.deadline is None:
        return packed
    return _encode(replace(options, when=When(at=due)))


def with_flow(packed: bytes, place: FlowPlace) -> bytes:
    """Returns the options of a job that has this place in a flow."""
    return _encode(replace(options_of(packed), flow=place))


def with_pause_after(packed: bytes, failures: int | None) -> bytes:
    """Returns the options with another `pause_after`."""
    options = options_of(packed)
    if options.pause_after == failures:
        return packed
    return _encode(replace(options, pause_after=failures))
