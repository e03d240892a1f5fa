"""Limits on a real server: sessions that claim at the same time, users' transactions, and how much
a claim reads."""

import asyncio
from typing import Any

import pytest

from mita.model.gate import Gate, StoredLimit
from mita.model.job import Claim, NewJob, Receipt, State
from mita.model.time import When
from mita.stores.postgres import PostgresStore, connection
from mita.stores.postgres.claim import ClaimSearch
from mita.stores.postgres.context import PostgresContext
from mita.stores.postgres.limits.hints import CLAIM_STATEMENTS
from mita.stores.postgres.server.connect import PsycopgConnection
from mita.stores.postgres.throughput.watermarks import SLACK_MS
from mita.testing.contract.given import (
    LONG,
    QUEUE,
    claims,
    job,
    jobs,
    look,
    put,
    put_many,
    running,
    settled,
    state_of,
    succeed,
)

from .shared import server
from .test_dead_rows import explained, pages
from .user_connections import ASYNC_KINDS, Undo

HOUR_US = 3_600_000_000
WAITERS = 3000


def rows(store: PostgresStore, table: str) -> int:
    space = store._state.statements.namespace
    return int(server("pg18").execute(f'select count(*) from "{space}".{table}')[0][0])


# ------------------------------------------------------------------------------ at the same time


class Runs:
    """The jobs that have run, and the keys that are held now."""

    def __init__(self, total: int) -> None:
        self.total = total
        self.done: list[str] = []
        self.held: set[str] = set()

    async def work(self, store: PostgresStore, worker: str) -> None:
        """Claim and settle until all jobs have run."""
        while len(self.done) < self.total:
            found = (await store.claim([QUEUE], 3, LONG, worker)).claims
            keys = [key for claim in found for key in _keys(claim)]
            assert len(keys) == len(set(keys)), "one claim gave a key twice"
            assert self.held.isdisjoint(keys), "a key was given twice"
            self.held |= set(keys)
            await asyncio.sleep(0)
            self.held -= set(keys)
            self.done += [claim.id for claim in found]
            await settled(store, *map(succeed, found))


def _keys(claim: Claim) -> list[str]:
    return [str(claim.resource), *(gate.key for gate in claim.gates)]


async def test_sessions_that_want_the_same_keys_in_other_orders_do_not_deadlock(url: str) -> None:
    """I5: every job runs once, and no key is given to two jobs at a time."""
    stores = [PostgresStore(url) for _ in range(4)]
    for store in stores:
        await store.open()
    names = ("a", "b", "c")
    made = [
        job(resource=names[n % 3], gates=(Gate(names[(n + 1 + n % 2) % 3], 1),)) for n in range(60)
    ]
    await stores[0].enqueue(made)
    runs = Runs(len(made))
    async with asyncio.timeout(60):
        await asyncio.gather(*(runs.work(store, f"w{n}") for n, store in enumerate(stores)))
    assert sorted(runs.done) == sorted(one.id for one in made)
    assert rows(stores[0], "_key_holder") == 0, "all keys were freed"
    await asyncio.gather(*(store.close() for store in stores))


async def test_many_sessions_share_the_tokens_of_a_rate_and_the_places_of_a_queue(
    url: str,
) -> None:
    """I5: claims at the same time never start more than a limit allows, whatever it is about."""
    stores = [PostgresStore(url) for _ in range(6)]
    for store in stores:
        await store.open()
    await stores[0].limit(["full"], None, StoredLimit(concurrency=7))
    rate = (Gate("host", None, HOUR_US, 9),)
    await stores[0].enqueue([*jobs(40, gates=rate), *jobs(40, queue="full")])
    for queue, most in ((QUEUE, 9), ("full", 7)):
        turns = await asyncio.gather(
            *(store.claim([queue], 4, LONG, f"w{n}") for n, store in enumerate(stores * 2))
        )
        assert sum(len(turn.claims) for turn in turns) <= most
        while (await stores[0].claim([queue], 4, LONG, "w")).claims:
            pass
        [view] = [view for view in await stores[0].queues() if view.name == queue]
        assert view.running == most
    await asyncio.gather(*(store.close() for store in stores))


async def test_fair_groups_take_turns_over_all_sessions(
    store: PostgresStore, twin: PostgresStore
) -> None:
    await put_many(store, 10, fair="big")
    await put_many(store, 4, fair="small")
    order = []
    for one in (store, twin) * 4:
        [claim] = await claims(one, 1)
        order.append(claim.fair)
    assert order.count("small") == 4


# ----------------------------------------------------------------------------- users' transactions


def debounced(**more: Any) -> NewJob:
    return job(**{"unique": "doc:7", "debounce": LONG, **more})


@pytest.mark.parametrize("kind", ASYNC_KINDS)
async def test_a_debounce_in_a_transaction_counts_when_it_commits(
    store: PostgresStore, plain_url: str, kind: str
) -> None:
    id = await put(store, unique="doc:7", payload=b"old")
    async with ASYNC_KINDS[kind](plain_url) as connection:
        receipts = await store.enqueue_in(connection, [debounced(payload=b"new"), job(fair="a")])
        assert (await look(store, id)).payload == b"old", "no worker sees it before the commit"
    assert receipts[0] == Receipt(id, created=False)
    assert receipts[1].created
    assert (await look(store, id)).payload == b"new"
    assert len(await claims(store)) == 1, "the debounced job is due later"


@pytest.mark.parametrize("kind", ASYNC_KINDS)
async def test_a_rollback_undoes_a_debounce_and_a_throttle(
    store: PostgresStore, plain_url: str, kind: str
) -> None:
    id = await put(store, unique="doc:7", payload=b"old")
    with pytest.raises(Undo):  # noqa: PT012
        async with ASYNC_KINDS[kind](plain_url) as connection:
            await store.enqueue_in(
                connection, [debounced(payload=b"new"), job(unique="ping", throttle=LONG)]
            )
            raise Undo
    assert (await look(store, id)).payload == b"old"
    again = job(unique="ping", throttle=LONG)
    assert await store.enqueue([again]) == [Receipt(again.id)]


# ----------------------------------------------------------------------------- what a claim reads


async def test_a_claim_does_not_look_at_the_waiters_of_a_rate(store: PostgresStore) -> None:
    """I14: counted in pages, beside plain jobs. Until the next vacuum, the index still has a page
    for about a hundred entries from before they waited. Their rows would be three times as many."""
    await put(store)
    context = PostgresContext(store._state)
    search = ClaimSearch(context, [QUEUE], 1, LONG, "w")
    before = pages(await explained(store, search.statement.claim(1, synced=True, keys_first=True)))
    await store.enqueue(jobs(WAITERS, gates=(Gate("hot", None, HOUR_US, 1),), priority=9))
    while (await store.claim([QUEUE], 1000, LONG, "w")).again == 0:
        pass
    [view] = await store.resources(key="hot")
    assert view.waiting == WAITERS - 1
    await put(store)
    after = pages(await explained(store, search.statement.claim(1, synced=True, keys_first=True)))
    assert after - before < WAITERS / 50


async def test_a_claim_beside_the_waiters_of_a_rate_is_one_statement(
    store: PostgresStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    """I14: it reads when the clock opens the next key, and nothing else of limits. With a hold it
    is another statement, and after the hold the first one again."""
    await store.enqueue(jobs(3, gates=(Gate("hot", None, HOUR_US, 1),)))
    while (await store.claim([QUEUE], 1000, LONG, "w")).again == 0:
        pass
    sent: list[str] = []
    execute, statements = connection.execute, store._state.statements

    async def noted(on: PsycopgConnection, text: str, values: dict[str, Any]) -> Any:
        sent.append(text)
        return await execute(on, text, values)

    async def kinds() -> list[str]:
        sent.clear()
        await put(store)
        assert len(await claims(store)) == 1
        return [
            kind for text in sent for kind in CLAIM_STATEMENTS.values() if text == statements[kind]
        ]

    monkeypatch.setattr(connection, "execute", noted)
    assert await kinds() == ["claim_keyed"]
    await store.hold([QUEUE], "other", When(LONG))
    assert await kinds() == ["claim_keyed", "claim_limited"]
    assert await kinds() == ["claim_limited"]
    await store.hold([QUEUE], "other", When(0))
    assert await kinds() == ["claim_limited"]
    assert await kinds() == ["claim_keyed"]


async def test_a_job_that_a_rate_wakes_and_that_starts_at_once_voids_no_watermark(
    store: PostgresStore,
) -> None:
    """I14: its due time is old, but no other claim has seen it in the queue."""
    await store.enqueue(jobs(2, gates=(Gate("hot", None, 2 * SLACK_MS * 1000 // 3, 1),)))
    assert len(await claims(store)) == 1
    space = store._state.statements.namespace
    behind = f'select last_value from "{space}"._behind'
    before = server("pg18").execute(behind)
    async with asyncio.timeout(30):
        woken: list[Claim] = []
        while not woken:
            await asyncio.sleep(0.01)
            woken = await claims(store)
    assert server("pg18").execute(behind) == before


async def test_plain_jobs_write_to_none_of_the_tables_of_limits(store: PostgresStore) -> None:
    await put_many(store, 3)
    found = await claims(store)
    await settled(store, *map(succeed, found))
    tables = ("_key", "_key_holder", "_queue_limit", "_limited", "_turn")
    assert [rows(store, table) for table in tables] == [0] * len(tables)


# ------------------------------------------------------------------------------------------ repair


async def test_keys_of_jobs_that_do_not_run_are_freed(store: PostgresStore) -> None:
    """I12: a row of a job that is gone counts for nothing, and a reap deletes it."""
    space = store._state.statements.namespace
    server("pg18").execute(f"""insert into "{space}"._key_holder values ('mail', 'gpu', 'gone')""")
    id = await put(store, gates=(Gate("gpu", 1),))
    [claim] = await claims(store)
    assert claim.id == id
    await store.reap(10, LONG, "w")
    assert rows(store, "_key_holder") == 1
    await settled(store, succeed(claim))
    assert rows(store, "_key_holder") == 0


async def test_a_job_that_an_older_worker_has_blocked_is_woken(store: PostgresStore) -> None:
    """Version 0.1 knows nothing of `blocked_at`; its workers may run beside this version."""
    holder = await running(store, resource="r")
    id = await put(store, resource="r")
    space = store._state.statements.namespace
    server("pg18").execute(f"""update "{space}"._job set state = 'blocked' where id = '{id}'""")
    await store.reap(10, LONG, "w")
    assert (await look(store, id)).blocked_at == "r"
    await settled(store, succeed(holder))
    assert await state_of(store, id) is State.QUEUED


async def test_a_limit_that_cannot_be_read_stops_nothing_and_the_doctor_names_it(
    store: PostgresStore,
) -> None:
    """I15"""
    await store.limit([QUEUE], None, StoredLimit(concurrency=0))
    await store.limit([QUEUE], "r", StoredLimit(concurrency=0))
    space = store._state.statements.namespace
    for table in ("_queue_limit", "_key"):
        server("pg18").execute(f"""update "{space}".{table} set stored_limit = '[-1]'""")
    await put(store, resource="r")
    assert len(await claims(store)) == 1
    [found] = [one for one in await store.doctor() if one.what == "records"]
    assert "the limit of key r, the limit of queue mail" in found.found
