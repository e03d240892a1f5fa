"""What a large flow remembers of retries.

Its counters know of each step how it ended first. A step that was counted as failed or cancelled
and is not in the store any more has succeeded after a retry, and its record was pruned; or it was
deleted. So these facts are stored with the flow, in the order in which they happened: which steps
were retried, which were deleted after they had failed or were cancelled again, and which had not
succeeded when the flow ended. A small flow stores each success after a retry itself
(`rules.flow.succeeded_signal`)."""

from collections.abc import Collection, Iterable, Mapping

import msgspec
from msgspec import Struct

from .durable import signal_name

RETRIED = "steps retried:"  # so begins the name of a fact: these steps were retried
LOST = "steps lost:"  # these steps were deleted, or had not succeeded when the flow ended


class StepNumbers(Struct, frozen=True, array_like=True, gc=False):
    """Numbers of steps: bit `n` of `bits` says whether `first + n` is one of them. So 100,000
    numbers are 12,500 bytes at most."""

    first: int
    bits: bytes


_pack = msgspec.msgpack.Encoder().encode
_read = msgspec.msgpack.Decoder(StepNumbers).decode


def pack_numbers(numbers: Collection[int]) -> bytes:
    """The value of a fact about these steps; there is at least one."""
    first = min(numbers)
    bits = bytearray((max(numbers) - first) // 8 + 1)
    for number in numbers:
        bits[(number - first) // 8] |= 1 << (number - first) % 8
    return _pack(StepNumbers(first, bytes(bits)))


def read_numbers(value: bytes) -> set[int]:
    """The numbers of a fact."""
    found = _read(value)
    return {
        found.first + 8 * at + bit
        for at, byte in enumerate(found.bits)
        if byte
        for bit in range(8)
        if byte >> bit & 1
    }


def succeeded_if_gone(values: Mapping[str, bytes]) -> set[int]:
    """The numbers of the steps that have succeeded after a retry if they are not in the store any
    more. `values` are the once values of the flow. The names of facts end with ids, and ids are in
    the order of time."""
    numbers: set[int] = set()
    for _, is_lost, value in sorted(_facts(values)):
        if is_lost:
            numbers -= read_numbers(value)
        else:
            numbers |= read_numbers(value)
    return numbers


def _facts(values: Mapping[str, bytes]) -> Iterable[tuple[str, bool, bytes]]:
    retried, lost = signal_name(RETRIED), signal_name(LOST)
    for name, value in values.items():
        if name.startswith(retried):
            yield name.removeprefix(retried), False, value
        elif name.startswith(lost):
            yield name.removeprefix(lost), True, value
