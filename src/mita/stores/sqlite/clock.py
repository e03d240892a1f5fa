"""One clock for all processes that share a file, also when the machine's clock is corrected.

The file stores how far its clock is ahead of the time since the machine was started. That time is
the same in every process and nobody can set it. So all processes show the same time, whenever they
were started.

The machine's clock may be set. The first process that writes after that notices the difference,
under the lock. In one transaction it moves everything that was counted from now (leases, waits,
retentions) by the same length, and lets the file's clock show the machine's time again. A wait
keeps its length. A moment that a person named (`at`) is not moved: it means that time on the
corrected clock.

After a restart, or on another machine, only the machine's clock can tell how much time has passed.
If it shows an earlier time than the file has seen, it was set back meanwhile, and the same
correction is made. The file therefore stores the time that it has seen, every ten seconds at most.
"""

import logging
import sqlite3
import time
from contextlib import suppress
from functools import cache
from pathlib import Path

import msgspec
from msgspec import Struct

from mita.model.time import SECOND, Moment, Wait
from mita.ports import clock
from mita.ports.clock import Clock
from mita.rules.readable import BAD

from .statements import Statements

TOLERANCE: Wait = 100  # a smaller correction of the machine's clock is not followed
SEEN_EVERY: Wait = 10 * SECOND
_PROMPT: Wait = 5  # two readings further apart than this were interrupted and prove nothing
_TRIES = 10

log = logging.getLogger("mita.store")


class Agreed(Struct, frozen=True, array_like=True):
    """What the file says of its clock: `boot` names the start of the machine, `ahead` is what to
    add to the time since then, `seen` a time that the clock has shown."""

    boot: str
    ahead: Wait
    seen: Moment


class Reading(Struct, frozen=True):
    """The machine's clocks: which start of the machine, the time since then, and the time of
    day."""

    boot: str
    elapsed: Wait
    wall: Moment


class FileClock:
    """The clock of one file, for one connection. A `given` clock takes its place, for tests."""

    def __init__(self, path: Path, sql: Statements, given: Clock | None) -> None:
        self._path, self._sql, self._given = path, sql, given
        self._text = ""
        self._agreed: Agreed | None = None

    def shown(self, database: sqlite3.Connection) -> Moment:
        """The time, for a reader: nothing is changed."""
        if self._given is not None:
            return self._given.now()
        agreed, reading = self._stored(database), read_machine()
        return reading.wall if agreed is None else _shown(agreed, reading)

    def followed(self, database: sqlite3.Connection) -> Moment:
        """The time, inside a transaction that writes: a correction of the machine's clock is
        followed first."""
        if self._given is not None:
            return self._given.now()
        agreed, reading = self._stored(database), read_machine()
        if agreed is None:
            self._store(database, reading, reading.wall)
            return reading.wall
        by = correction(agreed, reading)
        if by:
            reading = read_machine(promptly=True)
            by = correction(agreed, reading)
        now = _shown(agreed, reading) + by
        if by:
            self._correct(database, by)
        if by or agreed.boot != reading.boot or now - agreed.seen >= SEEN_EVERY:
            self._store(database, reading, now)
        return now

    def _stored(self, database: sqlite3.Connection) -> Agreed | None:
        """None in a file that has none yet: before its first migration, and until the first write
        after it."""
        try:
            row = database.execute(self._sql["clock"]).fetchone()
        except sqlite3.OperationalError as error:
            if "no such table" not in str(error):
                raise
            row = None
        if row is None:
            return None
        if row[0] != self._text:
            self._text, self._agreed = row[0], _parsed(row[0])
        return self._agreed

    def _store(self, database: sqlite3.Connection, reading: Reading, now: Moment) -> None:
        agreed = Agreed(reading.boot, now - reading.elapsed, now)
        with suppress(sqlite3.OperationalError):  # before the first migration there is no table
            database.execute(
                self._sql["set_clock"], {"value": msgspec.json.encode(agreed).decode()}
            )

    def _correct(self, database: sqlite3.Connection, by: Wait) -> None:
        for statement in self._sql["correct"].split(";\n"):
            database.execute(statement, {"by": by})
        how = "back" if by < 0 else "forward"
        log.warning(
            "%s: the machine's clock was set %s by %.1f s, and the file's clock follows it. "
            "Leases and waits keep their "
            "length; jobs with a named time (at=) start at that time on the corrected clock",
            self._path,
            how,
            abs(by) / SECOND,
        )


def correction(agreed: Agreed, reading: Reading) -> Wait:
    """By how much the file's clock has to be moved to show the machine's time. 0: it is right, or
    time has simply passed."""
    if reading.boot and agreed.boot == reading.boot:
        off = reading.wall - (reading.elapsed + agreed.ahead)
        return off if abs(off) > TOLERANCE else 0
    return min(0, reading.wall - agreed.seen)


def _shown(agreed: Agreed, reading: Reading) -> Moment:
    if reading.boot and agreed.boot == reading.boot:
        return reading.elapsed + agreed.ahead
    return max(reading.wall, agreed.seen)


def _parsed(text: str) -> Agreed | None:
    try:
        return msgspec.json.decode(text, type=Agreed)
    except BAD:
        return None


def read_machine(*, promptly: bool = False) -> Reading:
    """`promptly`: both clocks within a few milliseconds, so that a difference between them is none
    of ours."""
    boot = boot_name()
    if not boot:
        return Reading("", 0, clock.wall_clock())
    for _ in range(_TRIES if promptly else 1):
        elapsed = _elapsed()
        wall = clock.wall_clock()
        if not promptly or _elapsed() - elapsed <= _PROMPT:
            break
    return Reading(boot, elapsed, wall)


def _elapsed() -> Wait:
    return time.clock_gettime_ns(time.CLOCK_BOOTTIME) // 1_000_000


@cache
def boot_name() -> str:
    """What tells one start of this machine from another; "" where the system does not say. A time
    namespace has its own clock."""
    if not hasattr(time, "CLOCK_BOOTTIME"):
        return ""
    try:
        name = Path("/proc/sys/kernel/random/boot_id").read_text().strip()
    except OSError:
        return ""
    with suppress(OSError):
        name += f" {Path('/proc/self/ns/time').readlink()}"
    return name
