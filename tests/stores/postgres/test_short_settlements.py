"""The short statement for jobs that return to the queue writes what the full one writes."""

from collections.abc import AsyncIterator
from typing import Any

import pytest
from msgspec.structs import replace

from mita.model.ending import Ending, Interrupted, Raised, Rescheduled
from mita.model.job import Claim
from mita.model.outcome import CancelJob, RescheduleJob, Settlement
from mita.model.time import HOUR, When
from mita.rules.judge import Retention, judge
from mita.stores.postgres import PostgresStore, settle
from mita.stores.postgres.context import Query
from mita.stores.postgres.server import statements
from mita.testing.contract.clocks import FakeTicker
from mita.testing.contract.given import QUEUE, claims, job

from .shared import fresh_url

COLUMNS = """state, due - {now}, token, lease_until, finished, expires, stranded, asked, asked_due,
attempts, reschedules, busy, interruptions, crashes, worker, error, result, timeline, blocked_at,
failure_group, started"""
ENDINGS: dict[str, Ending] = {
    "retry": Raised('File "a.py", line 1\nValueError: \u0130 "no"\\', final=False, wait=None),
    "retry at once": Raised("", final=False, wait=0),
    "move": Rescheduled(When(HOUR), "later"),
    "move to a point in time": Rescheduled(When(0, 1), "soon"),
    "interruption": Interrupted(started=True, reason="a deploy"),
}
LINES = (0, 1, 49, 50)  # of the timeline before
FAULTS = {
    "the counter stays": ("{count}, stranded", "stranded"),
    "the timeline grows for ever": ("{longest_timeline}", "1000"),
    "the line has no start": ("h.failure, j.started)::text", "h.failure)::text"),
    "the lease stays": (",\n    lease_until = null", ""),
    "a point in time may be in the past": ("greatest(h.at, clock.now)", "h.at"),
    "what was asked is ignored": (" and j.asked is null", ""),
}


@pytest.fixture
async def short() -> AsyncIterator[PostgresStore]:
    store = PostgresStore(fresh_url(), clock=FakeTicker())
    await store.open()
    yield store
    await store.close()


def settlements(found: list[Claim]) -> list[Settlement]:
    """Each ending for each length of a timeline, and twice more: something is asked of those."""
    endings = [one for one in ENDINGS.values() for _ in LINES] + [*ENDINGS.values()] * 2
    return [
        Settlement(claim, judge(claim, ending, Retention(), 0.5))
        for claim, ending in zip(found, endings, strict=True)
    ]


async def rows_after(store: PostgresStore) -> list[tuple[Any, ...]]:
    """The rows of jobs after runs that ended in each way."""
    count = len(ENDINGS) * (len(LINES) + 2)
    await store.enqueue([replace(job(), id=f"{n:03}") for n in range(count)])
    line = '[1, "queued", "", null]'
    connection = await store._short.connected()
    space = store._state.statements.namespace
    await connection.execute(
        f"""update "{space}"._job set timeline = array_fill(%s::text, array[(
        array[{",".join(map(str, LINES))}])[id::int %% {len(LINES)} + 1]])""".encode(),
        (line,),
    )
    await connection.commit()
    found = sorted(await claims(store, count), key=lambda claim: claim.id)
    half = len(ENDINGS) * len(LINES)
    moved, ended = found[half : half + len(ENDINGS)], found[half + len(ENDINGS) :]
    await store.amend([claim.id for claim in moved], RescheduleJob(When(5 * HOUR)))
    await store.amend([claim.id for claim in ended], CancelJob(HOUR))
    assert all(await store.settle(settlements(found)))
    now = store._state.clock.now()  # type: ignore[union-attr]
    text = f'select id, {COLUMNS.format(now=now)} from "{space}"._job order by id'
    rows = await (await connection.execute(text.encode())).fetchall()
    await connection.commit()
    return rows


async def full_rows(store: PostgresStore, patch: pytest.MonkeyPatch) -> list[tuple[Any, ...]]:
    full = PostgresStore(fresh_url(), clock=store._state.clock)
    await full.open()
    try:
        with patch.context() as only_full:
            only_full.setattr(settle, "is_return", lambda _: False)
            return await rows_after(full)
    finally:
        await full.close()


async def test_both_statements_write_the_same(
    short: PostgresStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    sent: list[str] = []
    bound = short._state.bound

    def noted(one: Query) -> tuple[str, dict[str, Any]]:
        sent.append(one.name)
        return bound(one)

    monkeypatch.setattr(short._state, "bound", noted)
    rows = await rows_after(short)
    assert {"settle_return", "settle"} <= set(sent), "the full one has what was asked"
    assert rows == await full_rows(short, monkeypatch)


async def test_each_fault_of_the_short_statement_is_noticed(
    short: PostgresStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    full = await full_rows(short, monkeypatch)
    whole = statements.read("sql", "settle_return.sql")
    connection = await short._short.connected()
    for fault, (right, wrong) in FAULTS.items():
        assert right in whole
        text = short._state.statements.fill(whole.replace(right, wrong))
        monkeypatch.setitem(short._state.statements._texts, "settle_return", text)
        assert await rows_after(short) != full, fault
        await connection.execute(f'delete from "{short._state.statements.namespace}"._job'.encode())
        await connection.commit()


async def test_a_stale_token_returns_nothing(short: PostgresStore) -> None:
    await short.enqueue([job()])
    [claim] = await claims(short, 1)
    stale = replace(claim, token=claim.token - 1)
    verdict = judge(claim, ENDINGS["retry"], Retention(), 0.5)
    assert await short.settle([Settlement(stale, verdict)]) == [False]
    assert (await short.claim([QUEUE], 1, HOUR, "other")).claims == []
