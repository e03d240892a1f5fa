"""The machine's clock is set, and the processes of a file go on as if it had not been: one clock
for all of them."""

import sqlite3
from collections.abc import Callable
from pathlib import Path

import pytest
from msgspec.structs import replace

from mita.model.gate import Gate, StoredLimit
from mita.model.job import NewJob
from mita.model.time import HOUR, MINUTE, SECOND, Moment, When
from mita.ports.clock import wall_clock
from mita.ports.ids import new_id
from mita.stores.sqlite import SqliteStore, maintenance
from mita.stores.sqlite.file import file_clock
from mita.stores.sqlite.file.file_clock import (
    CLOCK_STORED_EVERY,
    CORRECTION_TOLERANCE,
    ClockRecord,
    Reading,
    shown,
)
from mita.stores.sqlite.file.statements import Statements, migrations
from mita.testing.contract.given import LONG, QUEUE

from .peer import Peer

HALF = HOUR // 2
SLACK = 5 * MINUTE  # how long a test may take on a busy machine
needs_boot = pytest.mark.skipif(
    not file_clock.boot_name(), reason="this system does not say when it was started"
)


@pytest.fixture
def set_clock(tmp_path: Path) -> Callable[[int], None]:
    """Make the wall clock of all peers wrong by so much from now on."""

    def set_clock(by: int) -> None:
        new = tmp_path / "new"
        new.write_text(str(by))
        new.replace(tmp_path / "wrong")

    return set_clock


def around(moment: Moment, wanted: Moment) -> bool:
    return abs(moment - wanted) < SLACK


@needs_boot
def test_a_clock_set_back_takes_no_job_away_and_starts_none_early(
    tmp_path: Path, set_clock: Callable[[int], None]
) -> None:
    """I4, I8: the one was started before the clock was set back, the other after."""
    set_clock(HOUR)
    with Peer(tmp_path) as before:
        running = before.ask("enqueue")
        assert before.ask("claim") == [running]
        later = before.ask("enqueue", wait=HALF)
        ready = before.ask("enqueue")
        set_clock(0)
        with Peer(tmp_path) as after:
            named = after.ask("enqueue", at=wall_clock() + HALF)
            assert after.ask("claim") == [ready]
            for peer in (before, after, before):
                assert peer.ask("reap") == []
                assert peer.ask("claim") == []
                assert peer.ask("extend")
                assert around(peer.ask("now"), wall_clock())
            assert around(after.ask("due", id=later), wall_clock() + HALF)
            assert around(before.ask("due", id=named), wall_clock() + HALF)


@needs_boot
def test_a_clock_set_forward_ends_no_lease_and_no_wait(
    tmp_path: Path, set_clock: Callable[[int], None]
) -> None:
    """I4, I8: a job at a named moment starts, for its moment has come on the corrected clock."""
    with Peer(tmp_path) as one, Peer(tmp_path) as two:
        running, moved = one.ask("enqueue"), one.ask("enqueue")
        assert one.ask("claim") == [running, moved]
        assert one.ask("move", id=moved, wait=HALF) == "asked"
        waits = one.ask("enqueue", wait=HALF)
        named = one.ask("enqueue", at=wall_clock() + HALF)
        set_clock(HOUR)
        assert two.ask("reap") == []
        assert two.ask("claim") == [named]
        assert one.ask("reap") == []
        assert one.ask("extend")
        assert two.ask("extend")
        assert around(two.ask("due", id=waits), wall_clock() + HOUR + HALF)
        assert around(one.ask("now"), wall_clock() + HOUR)
        assert around(two.ask("now"), wall_clock() + HOUR)


@needs_boot
def test_a_named_moment_is_one_of_the_corrected_clock(
    tmp_path: Path, set_clock: Callable[[int], None]
) -> None:
    """I8: by the wrong clock it had come already, and nobody had started the job."""
    with Peer(tmp_path) as one:
        named = one.ask("enqueue", at=wall_clock() + HALF)
        set_clock(HOUR)
        other = one.ask("enqueue")
        set_clock(0)
        assert one.ask("claim") == [other]
        set_clock(HALF + MINUTE)
        assert one.ask("claim") == [named]


# -------------------------------------------- a restart, another machine, a system that says little


class Machine:
    """Clocks that a test sets."""

    def __init__(self) -> None:
        self.reading = Reading("first start", HOUR, 1_900_000_000_000)

    def read(self, *, promptly: bool = False) -> Reading:
        return self.reading

    def set(self, **clocks: object) -> None:
        self.reading = replace(self.reading, **clocks)


@pytest.fixture
def machine(monkeypatch: pytest.MonkeyPatch) -> Machine:
    made = Machine()
    monkeypatch.setattr(file_clock, "read_machine", made.read)
    return made


async def opened(path: Path) -> SqliteStore:
    store = SqliteStore(path)
    await store.open()
    return store


async def put(store: SqliteStore, when: When) -> str:
    id = new_id()
    await store.enqueue([NewJob(id=id, task="t", queue=QUEUE, payload=b"\x80", when=when)])
    return id


async def ready(store: SqliteStore) -> list[str]:
    return [claim.id for claim in (await store.claim([QUEUE], 10, LONG, "w")).claims]


@pytest.mark.parametrize("by", [-HOUR, HOUR])
async def test_a_rate_keeps_its_wait_when_the_clock_is_set(
    tmp_path: Path, machine: Machine, by: int
) -> None:
    store, start = await opened(tmp_path / "jobs.db"), machine.reading.wall
    rate = (Gate("host", None, HALF * 1000, 1),)
    await store.limit([QUEUE], None, StoredLimit(None, HALF * 1000, 1))
    for _ in range(2):
        await store.enqueue(
            [NewJob(id=new_id(), task="t", queue=QUEUE, payload=b"\x80", gates=rate)]
        )
    assert len(await ready(store)) == 1
    assert await ready(store) == []  # the second waits for its token
    machine.set(wall=start + by)
    assert await ready(store) == []
    machine.set(elapsed=HOUR + HALF - SECOND, wall=start + by + HALF - SECOND)
    assert await ready(store) == []
    machine.set(elapsed=HOUR + HALF, wall=start + by + HALF)
    assert len(await ready(store)) == 1
    await store.close()


@pytest.mark.parametrize("version", [5, 7])
async def test_a_file_of_an_older_version_is_upgraded_although_the_clock_was_set(
    tmp_path: Path, machine: Machine, monkeypatch: pytest.MonkeyPatch, version: int
) -> None:
    """The clock is corrected before the migration makes the newest tables."""
    with monkeypatch.context() as before:
        before.setattr(maintenance, "migrations", lambda: migrations()[:version])
        await (await opened(tmp_path / "jobs.db")).close()
    machine.set(wall=machine.reading.wall + HOUR)
    store = await opened(tmp_path / "jobs.db")
    assert await store.now() == machine.reading.wall
    await store.close()


@pytest.mark.parametrize("boot", ["second start", ""])
async def test_time_passes_while_the_machine_is_off(
    tmp_path: Path, machine: Machine, boot: str
) -> None:
    store = await opened(tmp_path / "jobs.db")
    start = machine.reading.wall
    waits, named = await put(store, When(HALF)), await put(store, When(at=start + HOUR))
    await store.close()
    machine.set(boot=boot, elapsed=5, wall=start + HALF)
    store = await opened(tmp_path / "jobs.db")
    assert await store.now() == start + HALF
    assert await ready(store) == [waits]
    machine.set(elapsed=5 + HALF, wall=start + HOUR)
    assert await ready(store) == [named]
    await store.close()


@pytest.mark.parametrize("boot", ["second start", ""])
async def test_a_clock_that_lost_the_time_while_the_machine_was_off(
    tmp_path: Path, machine: Machine, boot: str
) -> None:
    """As of a machine without a battery: it starts in the past, and is corrected later."""
    store = await opened(tmp_path / "jobs.db")
    start = machine.reading.wall
    first, waits, named = (
        await put(store, When()),
        await put(store, When(HALF)),
        await put(store, When(at=start + HOUR)),
    )
    await store.close()
    machine.set(boot=boot, elapsed=0, wall=MINUTE)
    store = await opened(tmp_path / "jobs.db")
    assert await ready(store) == [first]
    assert await store.now() == MINUTE
    machine.set(elapsed=HALF, wall=MINUTE + HALF)
    assert await ready(store) == [waits]
    machine.set(elapsed=HOUR, wall=start + HOUR)
    assert await ready(store) == [named]
    await store.close()


async def test_a_small_correction_is_not_followed_and_the_clock_costs_a_claim_no_write(
    tmp_path: Path, machine: Machine
) -> None:
    store = await opened(tmp_path / "jobs.db")
    start = machine.reading
    await put(store, When())

    async def writes() -> int:
        return await store.writer.call(
            lambda context: int(context.connection.total_changes), durable=False
        )

    before = await writes()
    for n in range(5):
        machine.set(
            elapsed=start.elapsed + n * SECOND, wall=start.wall + n * SECOND + CORRECTION_TOLERANCE
        )
        await store.claim([QUEUE], 0, LONG, "w")
        assert await store.now() == start.wall + n * SECOND
    assert await writes() == before
    machine.set(elapsed=start.elapsed + CLOCK_STORED_EVERY, wall=start.wall + CLOCK_STORED_EVERY)
    await store.claim([QUEUE], 0, LONG, "w")
    assert await writes() == before + 1
    await store.close()


async def test_a_record_of_the_clock_that_cannot_be_read_is_replaced(
    tmp_path: Path, machine: Machine
) -> None:
    store = await opened(tmp_path / "jobs.db")
    await put(store, When())
    await store.close()
    with sqlite3.connect(tmp_path / "jobs.db") as database:
        database.execute("update _mita_meta set value = 'noon' where name = 'clock'")
    database.close()
    store = await opened(tmp_path / "jobs.db")
    assert len(await ready(store)) == 1
    await store.close()


HISTORY_AND_COUNTS = {
    *(
        "seq",
        "priority",
        "created",
        "attempts",
        "reschedules",
        "busy",
        "interruptions",
        "crashes",
        "most",
        "unique_for",
    ),
    *(
        "fire_time",
        "token",
        "started",
        "asked_keep",
        "finished",
        "due_fixed",
        "asked_fixed",
        "fixed",
        "paused",
        "job",
        "n",
    ),
    *("count", "cursor", "revision", "last", "failures"),
    *("has_groups", "weight", "interval_us", "burst", "virtual"),
}


async def test_every_moment_in_the_file_is_corrected_or_known_to_be_none_of_those(
    tmp_path: Path,
) -> None:
    """A new column with a moment in it must not be forgotten."""
    await (await opened(tmp_path / "jobs.db")).close()
    corrections = Statements("mita")["clock_correct"].split(";\n")
    with sqlite3.connect(tmp_path / "jobs.db") as database:
        found = database.execute("select name from sqlite_master where type = 'table'").fetchall()
        columns = [
            (table, column)
            for (table,) in found
            for _, column, kind, *_ in database.execute(f"pragma table_info({table})")
            if table.startswith("_mita_")
            and kind.lower() == "integer"
            and column not in HISTORY_AND_COUNTS
            and (table, column) != ("_mita_event", "at")
            and table not in ("_mita_history", "_mita_audit")  # of the past
        ]
    database.close()
    assert ("_mita_job", "lease_until") in columns
    for table, column in columns:
        assert any(
            f"update {table} " in text and f"{column} + :by" in text for text in corrections
        ), (table, column)


def test_what_counts_as_a_correction() -> None:
    agreed = ClockRecord("here", HOUR, 2 * HOUR)
    assert shown(agreed, Reading("here", HOUR, 2 * HOUR))[1] == 0
    assert shown(agreed, Reading("here", HOUR, 2 * HOUR + CORRECTION_TOLERANCE))[1] == 0
    assert shown(agreed, Reading("here", HOUR, HOUR))[1] == -HOUR
    assert shown(agreed, Reading("here", HOUR, 5 * HOUR))[1] == 3 * HOUR
    assert shown(agreed, Reading("elsewhere", 0, 5 * HOUR))[1] == 0
    assert shown(agreed, Reading("elsewhere", 0, HOUR))[1] == -HOUR
