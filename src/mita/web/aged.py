"""Values that take long to read, kept for a while with their age: no page waits for them."""

import asyncio
import time
from collections.abc import Awaitable, Callable
from typing import Any, Generic, TypeVar

from msgspec import Struct

T = TypeVar("T")

MOST_VALUES = 200  # kept by one dashboard; the oldest is forgotten first
PAGE_WAITS_S = 0.2  # for a value that is being read; then the page shows the one before
FRESH_S = 0.2  # a younger value is not read again
QUICK_S = 0.1  # what took longer to read is read more rarely


class Aged(Struct, Generic[T], frozen=True):
    """A value and how many seconds old it is. `value` is None if it has not been read yet."""

    value: T | None
    age: float = 0.0


class _Kept(Struct):
    value: Any = None
    read_at: float | None = None
    is_outdated: bool = False
    took: float = 0.0
    reading: "asyncio.Task[None] | None" = None
    error: Exception | None = None


class AgedValues:
    """Reads each value once at a time, however many pages want it. What took long to read is read
    more rarely: the store is busy with it for at most a tenth of the time. `on_late` is called when
    a value was read for which a page did not wait."""

    def __init__(
        self, on_late: Callable[[], object], clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._kept: dict[object, _Kept] = {}
        self._clock, self._on_late = clock, on_late

    async def get(
        self, name: object, read: Callable[[], Awaitable[T]], *, fresh_s: float = FRESH_S
    ) -> Aged[T]:
        """Return the value of this name. One that is younger than `fresh_s` is not read again. If
        reading takes longer than a page waits, the one before is returned. Raises what `read` has
        raised."""
        kept = self._kept.pop(name, None) or _Kept()
        self._kept[name] = kept  # the newest is last
        while len(self._kept) > MOST_VALUES:
            del self._kept[next(iter(self._kept))]
        if self._is_stale(kept, fresh_s) and kept.reading is None:
            kept.reading = asyncio.create_task(self._read(kept, read))
        if kept.reading is not None:
            await asyncio.wait([kept.reading], timeout=PAGE_WAITS_S)
        if kept.error is not None:
            raise kept.error
        age = 0.0 if kept.read_at is None else self._clock() - kept.read_at
        return Aged(kept.value, age)

    def forget(self) -> None:
        """Read everything again when it is asked for next: something was changed."""
        for kept in self._kept.values():
            kept.is_outdated = True

    def _is_stale(self, kept: _Kept, fresh_s: float) -> bool:
        if kept.read_at is None or kept.is_outdated:
            return True
        rest_s = 10 * kept.took if kept.took > QUICK_S else 0.0
        return self._clock() - kept.read_at > max(fresh_s, rest_s)

    async def _read(self, kept: _Kept, read: Callable[[], Awaitable[Any]]) -> None:
        began, kept.is_outdated = self._clock(), False
        try:
            kept.value, kept.error = await read(), None
        except Exception as error:  # noqa: BLE001 - the page that asked raises it
            kept.error = error
        finally:
            kept.read_at, kept.reading = self._clock(), None
            kept.took = kept.read_at - began
            if kept.took > PAGE_WAITS_S:
                self._on_late()
