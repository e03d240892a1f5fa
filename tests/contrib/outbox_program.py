"""The processes of the storm: writers that commit and roll back, relays, and workers."""

import asyncio
import os
import random
import sqlite3
import time
from contextlib import suppress
from pathlib import Path
from typing import Any, NamedTuple

import psycopg
from msgspec import Struct

from mita import Job, Mita
from mita.contrib.outbox import Outbox
from tests.waiting import wait_until

KEYS = ("ada", "bob", "eve")
ROLLED_BACK = 0.25  # of all transactions


class Run(NamedTuple):
    """A run of a job: its key and number, and when the store got the job."""

    what: str
    created: str


class Shop(Struct):
    """Where everything is, and how many transactions each writer makes."""

    database: str
    store: str
    folder: str
    transactions: int
    seed: int


def app_of(shop: Shop, *, with_outbox: bool) -> Mita:
    outbox = Outbox(shop.database, poll=0.05) if with_outbox else None
    app = Mita(shop.store, keep=0, outbox=outbox)

    @app.task(name="ship", resource="{key}")
    async def ship(job: Job, key: str, number: int) -> None:
        line = f"{key} {number} {job._claim.created}\n".encode()
        record = os.open(f"{shop.folder}/runs", os.O_WRONLY | os.O_APPEND | os.O_CREAT)
        os.write(record, line)
        os.close(record)

    return app


def connect(shop: Shop) -> Any:
    if shop.database.startswith("sqlite"):
        return sqlite3.connect(shop.database.removeprefix("sqlite:///"), timeout=60)
    return psycopg.connect(shop.database)


def prepare(shop: Shop) -> None:
    asyncio.run(Outbox(shop.database).create())
    connection = connect(shop)
    connection.execute("create table ledger (key text primary key, number integer)")
    connection.execute("create table shipments (key text, number integer)")
    for key in KEYS:
        connection.execute(f"insert into ledger values ('{key}', 0)")
    connection.commit()
    connection.close()


def write(shop: Shop, number: int) -> None:
    """Ship something in each transaction. The row of the key is locked before the enqueue, so the
    numbers of a key are in the order of the commits."""
    chance, app = random.Random(f"{shop.seed} {number}"), app_of(shop, with_outbox=True)
    connection = wait_until(lambda: reconnected(shop))
    for _ in range(shop.transactions):
        try:
            ship(app, connection, chance)
        except psycopg.OperationalError:  # the server was killed: what it committed is in the table
            connection.close()
            connection = wait_until(lambda: reconnected(shop))
    connection.close()


def ship(app: Mita, connection: Any, chance: random.Random) -> None:
    key = chance.choice(KEYS)
    text = "update ledger set number = number + 1 where key = '{}' returning number"
    [(next_number,)] = connection.execute(text.format(key)).fetchall()
    connection.execute(f"insert into shipments values ('{key}', {next_number})")
    app.tasks["ship"].using(connection).enqueue_sync(key, next_number)
    time.sleep(chance.uniform(0, 0.01))
    if chance.random() < ROLLED_BACK:
        connection.rollback()
    else:
        connection.commit()


def reconnected(shop: Shop) -> Any:
    with suppress(psycopg.OperationalError):
        return connect(shop)
    return None


def relay(shop: Shop) -> None:
    app_of(shop, with_outbox=True).relay().run_sync()


def work(shop: Shop) -> None:
    """Run jobs, without a relay."""
    app_of(shop, with_outbox=False).worker(lease=30, poll=0.2).run_sync()


def committed(shop: Shop) -> list[str]:
    connection = connect(shop)
    rows = connection.execute("select key, number from shipments").fetchall()
    connection.close()
    return [f"{key} {number}" for key, number in rows]


def runs(shop: Shop) -> list[Run]:
    """What ran, in the order of the runs."""
    file = Path(shop.folder) / "runs"
    lines = file.read_text().splitlines() if file.exists() else []
    return [Run(*line.rsplit(" ", 1)) for line in lines]
