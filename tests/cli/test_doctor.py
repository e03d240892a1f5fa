"""`doctor`, `migrate`."""

import asyncio
from collections.abc import Callable
from pathlib import Path

import pytest

from mita import Mita
from mita.model.repeat import Repeat
from mita.model.view import Finding, Health

from .conftest import Run


def test_migrate_creates_a_store_that_other_commands_use(mita: Run, project: Path) -> None:
    said = mita("migrate")
    assert (said.code, said.out) == (
        0,
        f"the schema of sqlite file {project}/jobs.db is up to date\n",
    )
    assert (project / "jobs.db").exists()
    assert mita("migrate", "--json").data == {
        "store": f"sqlite file {project}/jobs.db",
        "steps": [],
    }


def test_doctor_finds_nothing_bad_in_a_good_store(mita: Run) -> None:
    mita("migrate")
    said = mita("doctor")
    assert said.code == 0
    assert "acknowledged means on disk" in said.out
    assert "→ workers: start one" in said.out
    findings = {finding["what"]: finding for finding in mita("doctor", "--json").data["findings"]}
    assert findings["durability"]["health"] == "good"
    assert findings["workers"]["health"] == "warn"


def test_doctor_warns_of_a_file_that_others_may_read(mita: Run, project: Path) -> None:
    mita("migrate")
    (project / "jobs.db").chmod(0o644)
    said = mita("doctor")
    assert (said.code, "chmod 600" in said.out) == (0, True)


def test_doctor_fails_for_a_parked_repeat(mita: Run, enqueue: Callable[..., str]) -> None:
    enqueue("greet", "Ada")

    async def park() -> None:
        store = await Mita("sqlite:///jobs.db").open_store()
        await store.put_repeat(Repeat(key="torn", spec=b"\xc1", cursor=10**15))
        await store.close()

    asyncio.run(park())
    said = mita("doctor")
    assert (said.code, "torn is parked" in said.out) == (1, True)


def test_a_bad_finding_has_exit_code_1(mita: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    mita("migrate")

    async def has_bad_finding(store: object) -> list[Finding]:
        return [Finding("integrity", "page 3 is torn", Health.BAD, "copy the file")]

    monkeypatch.setattr("mita.stores.sqlite.SqliteStore.doctor", has_bad_finding)
    said = mita("doctor")
    assert said.code == 1
    assert "→ integrity: copy the file" in said.out
