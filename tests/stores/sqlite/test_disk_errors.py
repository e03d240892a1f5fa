"""A disk that is full or broken: what is said of it, and what to do."""

import shutil
import sqlite3
from pathlib import Path

import pytest

from mita.errors import StoreError
from mita.model.view import Health
from mita.stores.sqlite import SqliteStore
from mita.stores.sqlite.connection import translated

SAYS = {
    "SQLITE_FULL": (True, "Free some space"),
    "SQLITE_CORRUPT": (False, ".recover"),
    "SQLITE_CORRUPT_INDEX": (False, ".recover"),
    "SQLITE_READONLY_DIRECTORY": (False, "rights"),
    "SQLITE_IOERR_WRITE": (True, "disk"),
}


@pytest.mark.parametrize("name", SAYS)
def test_what_the_disk_says_comes_with_a_remedy(name: str) -> None:
    error = sqlite3.OperationalError("words of the engine")
    error.sqlite_errorname = name
    said = translated(error, Path("jobs.db"))
    assert isinstance(said, StoreError)
    transient, remedy = SAYS[name]
    assert said.transient is transient
    for part in ("jobs.db: words of the engine", name, remedy):
        assert part in str(said)


async def test_the_doctor_sees_a_disk_that_is_nearly_full(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = SqliteStore(tmp_path / "jobs.db")
    await store.open()
    usual = shutil.disk_usage(tmp_path)
    findings = []
    for free in (10_000_000, 10_000_000_000):
        monkeypatch.setattr(shutil, "disk_usage", lambda _, free=free: usual._replace(free=free))
        findings += [finding for finding in await store.doctor() if finding.what == "disk"]
    await store.close()
    assert [(finding.found, finding.health) for finding in findings] == [
        ("10 MB left", Health.WARN),
        ("10,000 MB left", Health.GOOD),
    ]
