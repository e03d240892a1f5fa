"""Settlements that a store rejects together are written in halves: together they may be too large
for one call, and one that cannot be written must not keep the others from being written."""

from collections.abc import Awaitable, Callable, Coroutine, Sequence
from functools import partial, update_wrapper
from typing import Any, TypeAlias, TypeVar

from msgspec.structs import replace

from mita.errors import Rejected
from mita.model.outcome import ClaimResult, Settlement

Settle: TypeAlias = Callable[[Sequence[Settlement]], Awaitable[list[bool]]]
S = TypeVar("S")
SettleMethod: TypeAlias = Callable[[S, Sequence[Settlement]], Coroutine[Any, Any, list[bool]]]


def in_halves(settle: SettleMethod[S]) -> SettleMethod[S]:
    """The method `settle` of a store, which also writes in halves what is rejected together."""

    async def method(self: S, settlements: Sequence[Settlement]) -> list[bool]:
        try:
            return await settle(self, settlements)
        except Rejected as error:
            return await two_halves(partial(method, self), settlements, error)

    update_wrapper(method, settle)
    return method


async def settle_apart(settle: Settle, settlements: Sequence[Settlement]) -> list[bool]:
    """Settle all together. If that is rejected, settle two halves, one after the other, and so on.
    `settle` writes all or nothing. Raises `Rejected` with the answers if some are rejected alone as
    well."""
    try:
        return await settle(settlements)
    except Rejected as error:
        return await two_halves(partial(settle_apart, settle), settlements, error)


async def two_halves(
    settle: Settle, settlements: Sequence[Settlement], error: Rejected
) -> list[bool]:
    """Settle two halves of a batch that was rejected with `error`. `settle` halves them again if
    they are rejected. Raises `Rejected` with the answers if some are rejected alone as well."""
    if len(settlements) <= 1:
        raise Rejected(str(error), took=[False], rejected={0: str(error)}) from error
    half = len(settlements) // 2
    took: list[bool] = []
    rejected: dict[int, str] = {}
    for part in (settlements[:half], settlements[half:]):
        start = len(took)
        try:
            took += await settle(part)
        except Rejected as some:
            took += some.took
            rejected |= {start + at: why for at, why in some.rejected.items()}
    if rejected:
        raise named(took, rejected)
    return took


async def turn_apart(
    turn: Callable[[], Awaitable[ClaimResult]],
    settle: Settle,
    claim: Callable[[], Awaitable[ClaimResult]],
    settlements: Sequence[Settlement],
) -> ClaimResult:
    """Settle and claim in one call (`turn`). If that is rejected, settle in halves and then claim.
    If one settlement is rejected alone, this raises and nothing is claimed."""
    try:
        return await turn()
    except Rejected:
        if not settlements:
            raise
    took = await settle_apart(settle, settlements)
    return replace(await claim(), took=took)


def named(took: Sequence[bool], rejected: dict[int, str]) -> Rejected:
    """The error for a batch of which these positions were rejected."""
    first = rejected[min(rejected)]
    return Rejected(
        f"{len(rejected)} of {len(took)} settlements were rejected: {first}",
        took=took,
        rejected=rejected,
    )
