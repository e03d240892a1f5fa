"""What people see of an outbox: `mita outbox`, `mita relay`, `mita why`, `mita doctor`, metrics."""

import asyncio
import json
import os
import signal
import sqlite3
import subprocess
import sys
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from prometheus_client import CollectorRegistry
from prometheus_client.exposition import generate_latest

from mita import Job, JobFailed, Mita, Retry
from mita.cli import main
from mita.contrib.outbox import Outbox
from mita.model.outbox import RowState
from tests.waiting import until, wait_until

from .test_outbox_kills import relay_until

SHOP = """
from mita import Mita, UsageError
from mita.contrib.outbox import Outbox

app = Mita("sqlite:///jobs.db", outbox=Outbox("sqlite:///shop.db", poll=0.05))

@app.task
def mail(customer: int) -> None: ...
"""


class Typed:
    """A person who types commands in the folder of the app."""

    def __init__(self, capsys: pytest.CaptureFixture[str]) -> None:
        self._capsys = capsys

    def __call__(self, *words: str, code: int = 0) -> str:
        assert main([*words]) == code
        out, err = self._capsys.readouterr()
        return out + err

    def json(self, *words: str) -> Any:
        return json.loads(self(*words, "--json"))


@pytest.fixture
def mita(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> Typed:
    (tmp_path / "outbox_shop.py").write_text(SHOP)
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.setenv("MITA_APP", "outbox_shop:app")
    monkeypatch.delitem(sys.modules, "outbox_shop", raising=False)
    return Typed(capsys)


def write(*customers: int) -> list[str]:
    from outbox_shop import app  # type: ignore[import-not-found]

    with closing(sqlite3.connect("shop.db")) as connection, connection:
        return [app.tasks["mail"].using(connection).enqueue_sync(n).id for n in customers]


def change(text: str, *values: object) -> None:
    with closing(sqlite3.connect("shop.db")) as connection, connection:
        connection.execute(text, values)


def test_the_commands_of_an_outbox(mita: Typed) -> None:
    assert "there is no file" in mita("outbox", code=3)
    change("create table orders (id integer)")
    assert "mita outbox create" in mita("outbox", code=2)
    assert "the table mita_outbox is in" in mita("outbox", "create")
    mita("migrate")
    assert "0 rows wait" in mita("outbox")
    first, second, third = write(1, 2, 3)
    change("update mita_outbox set written = written - 60000")
    assert "3 rows wait for the relay, the oldest since" in mita("outbox", "ls")
    said = mita("why", first)
    assert "it is in the outbox since" in said
    assert "mita relay outbox_shop:app" in said
    found = [one for one in mita.json("doctor")["findings"] if one["what"] == "outbox"]
    assert [one["health"] for one in found] == ["good", "warn"]
    change("update mita_outbox set state = 'parked', error = 'too large' where id <> ?", first)
    assert "too large" in mita("outbox")
    assert [one["id"] for one in mita.json("outbox")["parked"]] == [second, third]
    said = mita("why", second)
    assert "parked in the outbox: the store refused it: too large" in said
    assert f"mita outbox retry {second}" in said
    found = [one for one in mita.json("doctor")["findings"] if one["what"] == "outbox"]
    assert "2 rows are parked" in found[-1]["found"]
    assert "name the jobs" in mita("outbox", "retry", code=2)
    assert "no parked row" in mita("outbox", "retry", first, code=1)
    assert "1 row wait" in mita("outbox", "retry", second)
    assert "1 row deleted" in mita("outbox", "delete", "--all")
    assert mita.json("outbox")["rows"] == 2
    assert "no job" in mita("why", third, code=1)


def test_the_sql_needs_no_app(mita: Typed, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("MITA_APP")
    with closing(sqlite3.connect(":memory:")) as connection:
        connection.executescript(mita.json("outbox", "sql", "--dialect", "sqlite")["sql"])
        assert connection.execute("select count(*) from mita_outbox").fetchone() == (0,)
    assert "generated always as identity" in mita("outbox", "sql", "--dialect", "postgres")
    assert "name the app" in mita("relay", code=2)


def test_a_relay_alone_sends_and_survives_its_kill(mita: Typed) -> None:
    mita("outbox", "create")
    mita("migrate")
    command = [sys.executable, "-m", "mita", "relay", "outbox_shop:app", "--log-level", "warning"]
    for customer in (1, 2):
        write(customer)
        relay = subprocess.Popen(command, env=dict(os.environ))
        wait_until(lambda: mita.json("outbox")["rows"] == 0)
        relay.send_signal(signal.SIGKILL if customer == 1 else signal.SIGTERM)
        assert relay.wait(60) == (-signal.SIGKILL if customer == 1 else 0)
    assert len(mita.json("jobs")["jobs"]) == 2


async def shop(folder: Path) -> tuple[Mita, str]:
    """An app with one row in its outbox, and its id."""
    outbox = Outbox(f"sqlite:///{folder}/shop.db", poll=0.01)
    await outbox.create()
    app = Mita("memory://", outbox=outbox)

    @app.task(name="mail")
    async def mail() -> None: ...

    with closing(sqlite3.connect(folder / "shop.db")) as connection, connection:
        return app, mail.using(connection).enqueue_sync().id


async def test_a_job_that_is_placed_and_not_released_says_so(tmp_path: Path) -> None:
    app, id = await shop(tmp_path)
    await relay_until(app, "_write_down")
    row = await app.outbox.row(id)
    assert row is not None
    assert row.state is RowState.PLACED
    [reason] = await app.explain(id)
    assert "waits until the relay lets it start" in reason.text
    await app.worker(until_empty=True).run()
    [reason] = await app.explain(id)
    assert reason.code.value == "succeeded"


async def test_the_metrics_of_an_outbox_move(tmp_path: Path) -> None:
    app, _ = await shop(tmp_path)
    registry = CollectorRegistry()
    app.metrics(registry)

    async def value(name: str) -> float:
        page = (await asyncio.to_thread(generate_latest, registry)).decode()
        [line] = [line for line in page.splitlines() if line.startswith(f"mita_outbox_{name} ")]
        return float(line.split()[1])

    assert await value("rows") == 1
    assert await value("oldest_seconds") > 0
    with closing(sqlite3.connect(tmp_path / "shop.db")) as connection, connection:
        connection.execute("update mita_outbox set state = 'parked', error = 'it is too large'")

    async def is_parked() -> bool:
        return await value("parked") == 1

    await until(is_parked)
    assert await value("rows") == 0
    await app.close()


async def test_completing_in_a_transaction_is_refused_with_the_remedy(tmp_path: Path) -> None:
    app, _ = await shop(tmp_path)

    @app.task(retry=Retry(max_retries=0))
    def pay(job: Job) -> None:
        with closing(sqlite3.connect(tmp_path / "shop.db")) as connection, connection:
            job.complete_in_sync(connection)

    job = await pay.enqueue()
    await app.worker(until_empty=True).run()
    with pytest.raises(JobFailed, match="safe to repeat"):
        await job.result(timeout=0)
