"""What it costs writers to notify from inside their own transaction: `python -m benchmarks.notify
[seconds] [server]`.

pgbench lets 1 and 64 writers commit transactions with one row of theirs and one job. The job comes
without a notification, with `pg_notify` in the same transaction, or with a trigger that notifies.
Each way runs with no listener and with eight. Every commit waits for the disk. The rounds
alternate, so that a noisy machine treats all ways alike."""

import asyncio
import re
import statistics
import subprocess
import sys
from collections import defaultdict
from contextlib import AsyncExitStack
from pathlib import Path

import psycopg
from tests.stores.postgres.server import Server, binaries

from mita.stores.postgres import PostgresStore

ROUNDS = 3
CHANNEL = "measured"
JOB = """insert into mita._job
  (state, id, task, queue, priority, due, created, payload, options, headers)
values ('queued', gen_random_uuid()::text, 't', 'q', 5, 0, 0, 'x', '', '');"""
NOTIFY = f"select pg_notify('{CHANNEL}', 'q');"
TRIGGER = f"""
create function mita.measured() returns trigger language plpgsql as
$$ begin perform pg_notify('{CHANNEL}', 'q'); return null; end $$;
create trigger measured after insert on mita._job
  for each statement execute function mita.measured();
"""
NO_TRIGGER = "drop trigger if exists measured on mita._job; drop function if exists mita.measured()"
WAYS = {"no notification": "", "in the transaction": NOTIFY, "by a trigger": ""}


def pgbench(
    server: Server, name: str, script: Path, writers: int, seconds: int
) -> tuple[float, float]:
    """Transactions a second, and milliseconds for one."""
    done = subprocess.run(
        [
            str(binaries()[name] / "pgbench"),
            "-n",
            "-M",
            "prepared",
            "-c",
            str(writers),
            "-j",
            "2",
            "-T",
            str(seconds),
            "-f",
            str(script),
            "-h",
            str(server.folder),
            "-U",
            "postgres",
            "postgres",
        ],
        capture_output=True,
        text=True,
        check=True,
    ).stdout
    rate = re.search(r"tps = ([\d.]+)", done)
    delay = re.search(r"latency average = ([\d.]+)", done)
    assert rate is not None
    assert delay is not None
    return float(rate[1]), float(delay[1])


async def measure(
    server: Server, name: str, seconds: int
) -> dict[tuple[int, int, str], list[tuple[float, float]]]:
    store = PostgresStore(server.url())
    await store.open()
    await store.close()
    found: dict[tuple[int, int, str], list[tuple[float, float]]] = defaultdict(list)
    async with await psycopg.AsyncConnection.connect(server.url(), autocommit=True) as owner:
        await owner.execute("create table orders (id bigserial primary key, note text)")
        for _ in range(ROUNDS):
            for writers in (1, 64):
                for listeners in (0, 8):
                    for way, more in WAYS.items():
                        await owner.execute(NO_TRIGGER)
                        if way == "by a trigger":
                            await owner.execute(TRIGGER)
                        await owner.execute("truncate mita._job, orders")
                        script = server.folder / "script.sql"
                        script.write_text(
                            "begin;\ninsert into orders (note) values "
                            f"('x');\n{JOB}\n{more}\ncommit;\n"
                        )
                        async with AsyncExitStack() as stack:
                            for _ in range(listeners):
                                connection = await stack.enter_async_context(
                                    await psycopg.AsyncConnection.connect(
                                        server.url(), autocommit=True
                                    )
                                )
                                await connection.execute(f"listen {CHANNEL}")
                            took = await asyncio.to_thread(
                                pgbench, server, name, script, writers, seconds
                            )
                        found[writers, listeners, way].append(took)
    return found


def main() -> None:
    seconds = int(sys.argv[1]) if len(sys.argv) > 1 else 5
    name = sys.argv[2] if len(sys.argv) > 2 else "pg18"
    server = Server(name).start()
    try:
        found = asyncio.run(measure(server, name, seconds))
    finally:
        server.stop()
    print(
        "| writers | listeners | notification | transactions/s | ms each |\n|---|---|---|---|---|"
    )
    for (writers, listeners, way), rounds in found.items():
        rate, delay = (statistics.median(column) for column in zip(*rounds, strict=True))
        print(f"| {writers} | {listeners} | {way} | {rate:,.0f} | {delay:.2f} |")


if __name__ == "__main__":
    main()
