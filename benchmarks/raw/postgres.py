"""One table with one partial index; deleting the last batch and taking the next is one
transaction."""

from typing import Any

import psycopg

from .common import BATCH_JOBS, PAYLOAD, Ask, Phase, Timer

_SCHEMA = """
create table raw_job (
  id bigint generated always as identity primary key, queue text not null,
  state text not null, priority smallint not null, due timestamptz not null, payload bytea not null
);
create index raw_ready on raw_job (queue, priority desc, due, id) where state = 'ready';
"""
_INSERT = """
insert into raw_job (queue, state, priority, due, payload)
select 'bench', 'ready', 5, now(), payload from unnest(%b::bytea[]) as payload
"""
_TAKE = """
with next as (
  select id from raw_job where state = 'ready' and queue = 'bench' and due <= now()
  order by priority desc, due, id for update skip locked limit %s)
update raw_job set state = 'running' from next where raw_job.id = next.id
returning raw_job.id, raw_job.payload
"""
_DELETE = "delete from raw_job where id = any(%b::bigint[])"


def run(ask: Ask) -> dict[str, Phase]:
    timer = Timer(ask)
    with psycopg.connect(ask.url, autocommit=True) as connection:
        connection.execute(_SCHEMA)
        timer.singles(ask.seconds, lambda: connection.execute(_INSERT, [[PAYLOAD]], prepare=True))
        connection.execute("truncate raw_job")
        timer.begin()
        for start in range(0, ask.jobs, BATCH_JOBS):
            connection.execute(
                _INSERT, [[PAYLOAD] * min(BATCH_JOBS, ask.jobs - start)], prepare=True
            )
        timer.end("bulk", ask.jobs)
        connection.execute("vacuum analyze raw_job")
        connection.execute("checkpoint")
        timer.begin()
        timer.end("drain", _drain(connection))
    return timer.phases


def _drain(connection: psycopg.Connection[Any]) -> int:
    done, ids = 0, [0]
    while ids:
        with connection.pipeline(), connection.transaction():
            connection.execute(_DELETE, [ids], prepare=True)
            taken = connection.execute(_TAKE, [BATCH_JOBS], prepare=True, binary=True)
        ids = [id for id, _ in taken.fetchall()]
        done += len(ids)
    return done
