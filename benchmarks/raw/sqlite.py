"""One table with one index; deleting the last batch and taking the next is one transaction, synced
to disk."""

import sqlite3
import time

from .common import BATCH_JOBS, PAYLOAD, Ask, Phase, Timer

_SCHEMA = """
pragma journal_mode = wal;
pragma synchronous = full;
pragma wal_autocheckpoint = 4000;
create table job (
  id integer primary key, queue text not null, state text not null,
  priority integer not null, due integer not null, payload blob not null
);
create index ready on job (queue, priority desc, due, id) where state = 'ready';
"""
_INSERT = (
    "insert into job (queue, state, priority, due, payload) values ('bench', 'ready', 5, ?, ?)"
)
_TAKE = """
update job set state = 'running' where id in (
  select id from job where state = 'ready' and queue = 'bench' and priority = 5 and due <= ?
  order by due, id limit ?)
returning id, payload
"""


def run(ask: Ask) -> dict[str, Phase]:
    database = sqlite3.connect(ask.url.removeprefix("sqlite:///") + ".raw", isolation_level=None)
    database.executescript(_SCHEMA)
    timer = Timer(ask)
    due = int(time.time() * 1000)
    timer.singles(ask.seconds, lambda: database.execute(_INSERT, (due, PAYLOAD)))
    database.execute("delete from job")
    timer.begin()
    for start in range(0, ask.jobs, BATCH_JOBS):
        database.execute("begin immediate")
        database.executemany(_INSERT, [(due, PAYLOAD)] * min(BATCH_JOBS, ask.jobs - start))
        database.execute("commit")
    timer.end("bulk", ask.jobs)
    timer.begin()
    timer.end("drain", _drain(database))
    database.close()
    return timer.phases


def _drain(database: sqlite3.Connection) -> int:
    done, taken = 0, [(0, b"")]
    while taken:
        database.execute("begin immediate")
        database.executemany("delete from job where id = ?", [(id,) for id, _ in taken])
        taken = database.execute(_TAKE, (int(time.time() * 1000), BATCH_JOBS)).fetchall()
        database.execute("commit")
        done += len(taken)
    return done
