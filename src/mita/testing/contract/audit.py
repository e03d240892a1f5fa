"""The audit log: what operators changed, newest first, and bounded."""

import asyncio
from typing import Any

from msgspec.structs import replace

from mita.model.audit import AuditEntry
from mita.model.time import DAY
from mita.ports.ids import new_ids
from mita.ports.store import Can, Store
from mita.rules.audit import AUDIT_KEEP

from .clocks import Ticker
from .given import needs

EVERYTHING = (None, None, None)  # who, what, target


def entry(id: str, **more: Any) -> AuditEntry:
    """An entry, with these fields."""
    fields: dict[str, Any] = {"who": "ada", "via": "cli", "what": "pause", "target": "queue mail"}
    return AuditEntry(id=id, **{**fields, **more})


async def record(store: Store, *ids: str, **more: Any) -> None:
    """Record an entry for each of these ids."""
    await store.record_audit([entry(id, **more) for id in ids])


async def page(
    store: Store,
    *,
    after: str | None = None,
    limit: int = 100,
    who: str | None = None,
    what: str | None = None,
    target: str | None = None,
) -> list[str]:
    """The ids of a page."""
    return [one.id for one in await store.audit_page(after, limit, who, what, target)]


async def test_an_entry_is_returned_as_it_was_recorded(store: Store, twin: Store) -> None:
    """Every field comes back, in another process too; the time is that of the store."""
    [id] = new_ids(1)
    told = entry(
        id,
        why="incident 7: «Ünïcode» \0 and 'quotes'",
        count=12,
        result="refused: no",
        details={"at": "2030-01-31T09:00:00+00:00", "names": ["a", "b"], "rate": {"limit": 5}},
    )
    before = await store.now()
    await store.record_audit([told])
    [found] = await twin.audit_page(None, 10, *EVERYTHING)
    assert before <= found.at <= await store.now()
    assert found == replace(told, at=found.at)


async def test_the_newest_entry_comes_first(store: Store, twin: Store) -> None:
    """The order is that of the ids, whichever process recorded them, in whatever order."""
    ids = new_ids(6)
    await store.record_audit([entry(ids[3]), entry(ids[0])])
    await twin.record_audit([entry(ids[5]), entry(ids[1])])
    await store.record_audit([entry(ids[4]), entry(ids[2])])
    assert await page(store) == ids[::-1]


async def test_pages_of_the_audit_log_meet_every_entry_once(store: Store) -> None:
    """`after` is the last id of the page before; entries that come meanwhile change nothing."""
    *ids, late, later = new_ids(9)
    await record(store, *ids)
    first = await page(store, limit=3)
    await record(store, late, later)
    second = await page(store, after=first[-1], limit=3)
    third = await page(store, after=second[-1], limit=3)
    assert [*first, *second, *third] == ids[::-1]
    assert await page(store, after=third[-1], limit=3) == []


async def test_the_audit_log_is_filtered_by_person_verb_and_target(store: Store) -> None:
    """`who` and `what` are compared as they are, `target` is a part of the text; all must hold."""
    a, b, c, d = ids = new_ids(4)
    await store.record_audit(
        [
            entry(a),
            entry(b, who="bob"),
            entry(c, what="retry", target="jobs: queue=mail state=failed"),
            entry(d, what="retry", target="job 100%_done"),
        ]
    )
    assert await page(store, who="ada") == [d, c, a]
    assert await page(store, who="ad") == []
    assert await page(store, what="retry") == [d, c]
    assert await page(store, target="mail") == [c, b, a]
    assert await page(store, target="%_") == [d]
    assert await page(store, target="MAIL") == []
    assert await page(store, who="ada", what="retry", target="mail") == [c]
    assert await page(store, what="retry", after=d) == [c]
    assert await page(store, limit=1, who="bob") == [b]
    assert await page(store) == ids[::-1]


async def test_an_entry_that_is_recorded_again_is_there_once(store: Store, twin: Store) -> None:
    """A caller that lost its connection records again; the first entry stays."""
    [id] = new_ids(1)
    await record(store, id, why="first")
    await twin.record_audit([entry(id, why="again")])
    [found] = await store.audit_page(None, 10, *EVERYTHING)
    assert (found.id, found.why) == (id, "first")


async def test_entries_are_deleted_when_they_are_too_old(store: Store, clock: Ticker) -> None:
    """After 400 days an entry is not returned any more, and the next record or prune deletes it."""
    needs(store, Can.OBEY_A_FAKE_CLOCK)
    a, b, c, d, e = new_ids(5)
    await record(store, a, b)
    await clock.tick(AUDIT_KEEP - DAY)
    await record(store, c, d)
    assert await page(store) == [d, c, b, a]
    await clock.tick(2 * DAY)
    assert await page(store) == [d, c]
    await store.prune(10, 10)
    await record(store, e)
    assert await page(store) == [e, d, c]


async def test_entries_of_many_callers_at_once_are_all_there(store: Store, twin: Store) -> None:
    """No caller overwrites what another one records."""
    ids = new_ids(40)
    await asyncio.gather(
        *(
            handle.record_audit([entry(id)])
            for pair in zip(ids[::2], ids[1::2], strict=True)
            for handle, id in zip((store, twin), pair, strict=True)
        )
    )
    assert await page(store) == ids[::-1]


async def test_nothing_of_a_job_is_recorded_by_the_store_itself(store: Store) -> None:
    """Only `record_audit` writes to the audit log."""
    await store.pause(["mail"])
    await store.resume(["mail"])
    await store.record_audit([])
    assert await page(store) == []
