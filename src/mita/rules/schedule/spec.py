"""A repeat's spec as bytes and back, and what an edit does to its cursor."""

import msgspec
from msgspec.structs import replace

from mita.errors import UsageError
from mita.model.pattern import RepeatSpec
from mita.model.repeat import Repeat, RepeatState
from mita.model.time import Moment

from .times import check, first, following

_FIRST_REVISIONS = 2**30  # leaves as many again for edits in a store that counts in 32 bits

_decoder = msgspec.msgpack.Decoder(RepeatSpec)
_encoder = msgspec.msgpack.Encoder()


def pack(spec: RepeatSpec) -> bytes:
    """Returns the spec as bytes."""
    return _encoder.encode(spec)


def unpack(packed: bytes) -> RepeatSpec:
    """Returns the spec. Raises a `UsageError` if it cannot be read or computed (any more)."""
    try:
        spec = _decoder.decode(packed)
    except (msgspec.MsgspecError, ValueError, RecursionError) as error:
        raise UsageError(f"the stored repeat cannot be read: {error}") from error
    check(spec)
    return spec


def put(key: str, spec: RepeatSpec, stored: Repeat | None, now: Moment) -> Repeat:
    """Returns the repeat to store for this spec. A new pattern begins now. The same pattern keeps
    its cursor, which only the store knows at that moment, so none is given. A new repeat gets a
    revision of its own, so that a firing that was planned for a removed repeat of the same key does
    not match."""
    check(spec)
    if stored is not None and spec.limit is not None and stored.count >= spec.limit:
        reason = f"it has fired {stored.count} times, its limit"
        return Repeat(
            key=key, spec=pack(spec), cursor=None, state=RepeatState.FINISHED, reason=reason
        )
    if stored is not None and stored.cursor is not None and _same_times(spec, stored.spec):
        return Repeat(key=key, spec=pack(spec), cursor=None)
    cursor = _cursor(spec, stored, now)
    if cursor is None and stored is None:
        raise UsageError(
            f"repeat {key!r} would never fire: its pattern has no match ahead; check it, and its "
            "end_before"
        )
    if cursor is None:
        reason = "no fire is left before its end"
        return Repeat(
            key=key, spec=pack(spec), cursor=None, state=RepeatState.FINISHED, reason=reason
        )
    return Repeat(key=key, spec=pack(spec), cursor=cursor, revision=now % _FIRST_REVISIONS)


def _cursor(spec: RepeatSpec, stored: Repeat | None, now: Moment) -> Moment | None:
    if stored is None or stored.last is None or not _same_times(spec, stored.spec):
        return first(spec, now)
    return following(spec, now, stored.last)


def _same_times(spec: RepeatSpec, packed: bytes) -> bool:
    try:
        old = unpack(packed)
    except UsageError:
        return False
    return (old.pattern, old.start_after, old.end_before) == (
        spec.pattern,
        spec.start_after,
        spec.end_before,
    )


def switched(repeat: Repeat, reason: str = "") -> Repeat:
    """Returns an active repeat paused, with the reason; or a paused one active again, which counts
    its failures from 0."""
    if repeat.state is RepeatState.ACTIVE:
        return replace(repeat, state=RepeatState.PAUSED, pause_reason=reason)
    return replace(repeat, state=RepeatState.ACTIVE, pause_reason="", failures=0)


def edited(stored: Repeat, given: Repeat) -> Repeat:
    """Returns what the store has after an edit. An edit without a cursor changes the spec alone: a
    fire in between may have moved the cursor, which must not be set back."""
    if given.state is RepeatState.ACTIVE and given.cursor is None:
        return replace(stored, spec=given.spec, revision=stored.revision + 1)
    state = RepeatState.PAUSED if stored.state is RepeatState.PAUSED else given.state
    return replace(
        given,
        state=state,
        revision=stored.revision + 1,
        count=stored.count,
        last=stored.last,
        failures=stored.failures,
        pause_reason=stored.pause_reason,
    )
