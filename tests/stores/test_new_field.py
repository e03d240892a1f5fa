"""A new field of a job costs the memory store nothing, and the SQLite store one column."""

import subprocess
import sys
from pathlib import Path

import pytest

# The structs get their new fields before any store is imported, as if they were in the model.
PROGRAM = """
import asyncio, sqlite3, sys
from pathlib import Path
import msgspec
from mita.model import job

FIELDS = [
    ("label", str | None, None), ("stamp", bytes, b""), ("mass", int, 0),
    ("marks", tuple[str, ...], ()),
]
COLUMNS = (
    "label text", "stamp blob not null default x''", "mass integer not null default 0",
    "marks text not null default '[]'",
)
for kind in (job.NewJob, job.Claim, job.Job):
    made = msgspec.defstruct(
        kind.__name__, FIELDS, bases=(kind,), frozen=True, kw_only=True, module=kind.__module__
    )
    setattr(job, kind.__name__, made)
for name in [name for name in sys.modules if name.startswith("mita.rules.")]:
    del sys.modules[name]  # they have seen the structs without the fields

from mita.ports.ids import new_id
from mita.stores.memory import MemoryStore
from mita.stores.sqlite import SqliteStore


def added(record):
    return record.label, record.stamp, record.mass, record.marks


async def main(store):
    await store.open()
    values = {"label": "blue", "stamp": bytes([0, 255]), "mass": 7, "marks": ("a", "b")}
    new = job.NewJob(id=new_id(), task="t", queue="q", payload=b"x", **values)
    plain = job.NewJob(id=new_id(), task="t", queue="q", payload=b"x")
    await store.enqueue([new, plain])
    expected = [tuple(values.values()), (None, b"", 0, ())]
    claims = (await store.claim(["q"], 2, 0, "first")).claims
    assert [added(claim) for claim in claims] == expected, claims
    assert [added(found) for found in await store.find([new.id, plain.id])] == expected
    heirs = await store.reap(2, 1000, "second")
    assert [(added(claim), claim.lost) for claim in heirs] == [(e, "first") for e in expected]
    findings = [finding.found for finding in await store.doctor() if finding.what == "records"]
    assert findings in ([], ["all can be read"]), findings
    await store.close()


async def with_columns(path):
    store = SqliteStore(path)
    await store.open()
    await store.close()
    with sqlite3.connect(path) as file:
        for column in COLUMNS:
            file.execute(f"alter table _mita_job add column {column}")
    file.close()
    await main(SqliteStore(path))


asyncio.run(main(MemoryStore()) if sys.argv[1] == "memory" else with_columns(Path(sys.argv[2])))
"""


@pytest.mark.parametrize("store", ["memory", "sqlite"])
def test_a_new_field_is_stored_claimed_and_found(store: str, tmp_path: Path) -> None:
    ran = subprocess.run(
        [sys.executable, "-c", PROGRAM, store, str(tmp_path / "jobs.db")],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert ran.returncode == 0, ran.stderr
