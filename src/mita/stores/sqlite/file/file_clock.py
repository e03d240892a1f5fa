"""One clock for all processes that share a file, also when the machine's clock is corrected.

The file stores how far its clock is ahead of the time since the machine was started. That time is
the same in every process, and no process can set it. So all processes show the same time, no matter
when they were started.

The machine's clock may be set. The first process that writes after that notices the difference,
under the lock. In one transaction it moves everything that was counted from "now" (leases, delays,
retentions) by the same length, and lets the file's clock show the machine's time again. A delay
keeps its length. A point in time that a person named (`at`) is not moved: it means that time on the
corrected clock.

After a restart, or on another machine, only the machine's clock can tell how much time has passed.
If it shows an earlier time than the file has seen, it was set back meanwhile, and the same
correction is made. For this the file stores the time that it has seen, every ten seconds at most.
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
from mita.ports.clock import Clock
from mita.rules.readable import BAD

from .statements import Statements

CORRECTION_TOLERANCE: Wait = 100  # a smaller correction of the machine's clock is not followed
CLOCK_STORED_EVERY: Wait = 10 * SECOND
_SLOWEST_READING: Wait = 5  # two readings further apart than this were interrupted
_READING_TRIES = 10

log = logging.getLogger("mita.store")


class ClockRecord(Struct, frozen=True, array_like=True):
    """What the file stores of its clock: `boot` names the start of the machine, `ahead` is what to
    add to the time since then, `seen` is a time that the clock has shown."""

    boot: str
    ahead: Wait
    seen: Moment


class Reading(Struct, frozen=True):
    """The machine's clocks: the name of its start, the time since then, and the time of day."""

    boot: str
    elapsed: Wait
    wall: Moment


class FileClock:
    """The clock of one file, for one connection. A `given` clock replaces it, for tests."""

    def __init__(self, path: Path, sql: Statements, given: Clock | None) -> None:
        self._path, self._sql, self._given = path, sql, given
        self._text = ""
        self._record: ClockRecord | None = None

    def now(self, database: sqlite3.Connection, *, writes: bool) -> Moment:
        """The time. `writes`: inside a transaction that writes. Then the file's clock first follows
        the machine's clock, if that was set, and the file notes now and then that it has seen this
        time."""
        if self._given is not None:
            return self._given.now()
        record, reading = self._stored(database), read_machine()
        now, by = (reading.wall, 0) if record is None else shown(record, reading)
        is_news = (
            record is None or record.boot != reading.boot or now - record.seen >= CLOCK_STORED_EVERY
        )
        return self._follow(database, record) if writes and (by or is_news) else now

    def _follow(self, database: sqlite3.Connection, record: ClockRecord | None) -> Moment:
        """Correct the file's clock if the machine's clock was set, and store the time."""
        reading = read_machine(promptly=True)
        now, by = (reading.wall, 0) if record is None else shown(record, reading)
        if by:
            self._correct(database, by)
            now += by
        self._store(database, reading, now)
        return now

    def _stored(self, database: sqlite3.Connection) -> ClockRecord | None:
        """None before the first migration of a new file, and until the first write after it."""
        try:
            row = database.execute(self._sql["clock_read"]).fetchone()
        except sqlite3.OperationalError as error:
            if "no such table" not in str(error):
                raise
            row = None
        if row is None:
            return None
        if row[0] != self._text:
            self._text, self._record = row[0], _parsed(row[0])
        return self._record

    def _store(self, database: sqlite3.Connection, reading: Reading, now: Moment) -> None:
        record = ClockRecord(reading.boot, now - reading.elapsed, now)
        value = msgspec.json.encode(record).decode()
        with suppress(sqlite3.OperationalError):  # before the first migration there is no table
            database.execute(self._sql["clock_write"], {"value": value})

    def _correct(self, database: sqlite3.Connection, by: Wait) -> None:
        for statement in self._sql["clock_correct"].split(";\n"):
            try:
                database.execute(statement, {"by": by})
            except sqlite3.OperationalError as error:
                # before the migration of an older file, a table or a column may be missing
                if "no such" not in str(error):
                    raise
        how = "back" if by < 0 else "forward"
        log.warning(
            "%s: the machine's clock was set %s by %.1f s, and the file's clock follows it. "
            "Leases and delays keep their length; jobs with a named time (at=) start at that time "
            "on the corrected clock",
            self._path,
            how,
            abs(by) / SECOND,
        )


def shown(record: ClockRecord, reading: Reading) -> tuple[Moment, Wait]:
    """The time of the file's clock, and the correction: by how much it must be moved to show the
    machine's time. 0: it is right, or time has simply passed."""
    if reading.boot and record.boot == reading.boot:
        now = reading.elapsed + record.ahead
        off = reading.wall - now
        return now, off if abs(off) > CORRECTION_TOLERANCE else 0
    return max(reading.wall, record.seen), min(0, reading.wall - record.seen)


def _parsed(text: str) -> ClockRecord | None:
    try:
        return msgspec.json.decode(text, type=ClockRecord)
    except BAD:
        return None


def read_machine(*, promptly: bool = False) -> Reading:
    """Read the machine's clocks. `promptly`: both within a few milliseconds, so that a difference
    between them is not caused by an interruption in between."""
    boot = boot_name()
    if not boot:
        return Reading("", 0, time.time_ns() // 1_000_000)
    for _ in range(_READING_TRIES if promptly else 1):
        elapsed = time.clock_gettime_ns(time.CLOCK_BOOTTIME) // 1_000_000
        wall = time.time_ns() // 1_000_000
        after = time.clock_gettime_ns(time.CLOCK_BOOTTIME) // 1_000_000 if promptly else elapsed
        if after - elapsed <= _SLOWEST_READING:
            break
    return Reading(boot, elapsed, wall)


@cache
def boot_name() -> str:
    """A name for this start of the machine; "" if the system has none. A time namespace has its own
    clock, so its name is part of it."""
    if not hasattr(time, "CLOCK_BOOTTIME"):
        return ""
    try:
        name = Path("/proc/sys/kernel/random/boot_id").read_text().strip()
    except OSError:
        return ""
    with suppress(OSError):
        name += f" {Path('/proc/self/ns/time').readlink()}"
    return name
