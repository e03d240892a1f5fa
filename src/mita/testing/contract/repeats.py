"""Repeats: each point in time fires once, however many schedulers run."""

import asyncio
from typing import Any

from msgspec.structs import replace

from mita.model.repeat import DueRepeats, Firing, Repeat, RepeatState
from mita.model.time import HOUR, Moment, When
from mita.ports.store import Store

from .clocks import Ticker
from .given import (
    LONG,
    PAST_SOON,
    SOON,
    claims,
    job,
)


async def given(store: Store, key: str = "digest", wait: int = 0, **more: Any) -> Repeat:
    """A stored repeat that is due after `wait`."""
    fields: dict[str, Any] = {
        "spec": b"spec of " + key.encode(),
        "cursor": await store.now() + wait,
        **more,
    }
    return await store.put_repeat(Repeat(key=key, **fields))


def firing(repeat: Repeat, next: Moment | None = None, **more: Any) -> Firing:
    """One firing of a repeat, which enqueues one job."""
    assert repeat.cursor is not None
    made = job(repeat=repeat.key, fire_time=repeat.cursor, when=When(at=repeat.cursor))
    fields: dict[str, Any] = {
        "next": next if next is not None else repeat.cursor + HOUR,
        "fired": 1,
        "last": repeat.cursor,
        "jobs": (made,),
        **more,
    }
    return Firing(key=repeat.key, cursor=repeat.cursor, revision=repeat.revision, **fields)


async def stored(store: Store, key: str = "digest") -> Repeat:
    """Return the repeat with this key."""
    [found] = [repeat for repeat in await store.list_repeats() if repeat.key == key]
    return found


async def test_a_new_repeat_is_stored_as_given(store: Store, twin: Store) -> None:
    """`put_repeat` stores every field, and `list_repeats` is sorted by key."""
    for key in ("b", "a"):
        repeat = Repeat(key=key, spec=bytes(range(256)), cursor=1_700_000_000_123)
        assert await store.put_repeat(repeat) == repeat
    assert [repeat.key for repeat in await twin.list_repeats()] == ["a", "b"]
    assert (await twin.list_repeats())[1] == Repeat(
        key="b", spec=bytes(range(256)), cursor=1_700_000_000_123
    )


async def test_putting_the_same_repeat_again_changes_nothing(store: Store) -> None:
    """I7 repeats: every start of an app puts its repeats, and none of them may be set back."""
    repeat = await given(store, wait=LONG)
    assert await store.put_repeat(replace(repeat, cursor=0)) == repeat
    assert await store.list_repeats() == [repeat]


async def test_an_edit_keeps_the_count_and_grows_the_revision(store: Store) -> None:
    """A repeat with a new spec keeps its count and gets a larger revision."""
    repeat = await given(store)
    assert await store.fire([firing(repeat)]) == [True]
    cursor = await store.now() + LONG
    edited = await store.put_repeat(Repeat(key="digest", spec=b"another", cursor=cursor))
    assert (edited.spec, edited.cursor, edited.revision) == (
        b"another",
        cursor,
        repeat.revision + 1,
    )
    assert (edited.count, edited.last, edited.state) == (1, repeat.cursor, RepeatState.ACTIVE)
    assert await stored(store) == edited


async def test_an_edit_without_a_cursor_keeps_the_cursor(store: Store) -> None:
    """I7 repeats: a fire between the read and the edit has moved the cursor, and the edit must not
    set it back."""
    repeat = await given(store)
    turn = firing(repeat)
    assert await store.fire([turn]) == [True]
    edited = await store.put_repeat(Repeat(key="digest", spec=b"another", cursor=None))
    assert (edited.spec, edited.cursor, edited.revision) == (
        b"another",
        turn.next,
        repeat.revision + 1,
    )
    assert (edited.state, edited.count, edited.last) == (RepeatState.ACTIVE, 1, repeat.cursor)
    assert await stored(store) == edited


async def test_an_edit_does_not_end_a_pause(store: Store) -> None:
    """A paused repeat that is edited stays paused."""
    await given(store)
    assert await store.pause_repeats(["digest"]) == [True]
    edited = await store.put_repeat(Repeat(key="digest", spec=b"another", cursor=1))
    assert edited.state is RepeatState.PAUSED
    assert (
        await store.put_repeat(replace(edited, state=RepeatState.ACTIVE))
    ).state is RepeatState.PAUSED


async def test_a_finished_repeat_can_be_put_again(store: Store) -> None:
    """Putting a finished repeat with a new spec makes it active."""
    repeat = await given(store)
    over = firing(repeat, state=RepeatState.FINISHED, reason="its limit")
    assert await store.fire([replace(over, next=None)]) == [True]
    ended = await stored(store)
    assert (ended.state, ended.reason, ended.cursor, ended.count) == (
        RepeatState.FINISHED,
        "its limit",
        None,
        1,
    )
    again = await store.put_repeat(repeat)
    assert (again.state, again.reason, again.cursor) == (RepeatState.ACTIVE, "", repeat.cursor)
    assert (again.revision, again.count) == (repeat.revision + 1, 1)


async def test_a_repeat_that_cannot_be_computed_is_parked_and_shown(store: Store) -> None:
    """I15 never drop: a parked repeat is listed with its reason, never fires, and can be fixed by
    putting it again."""
    repeat = await given(store, state=RepeatState.PARKED, cursor=None, reason="no such zone")
    assert await stored(store) == repeat
    assert (await store.due_repeats(10)).repeats == []
    mended = await store.put_repeat(replace(repeat, state=RepeatState.ACTIVE, cursor=1, reason=""))
    assert (mended.state, mended.reason, mended.revision) == (
        RepeatState.ACTIVE,
        "",
        repeat.revision + 1,
    )


async def test_find_repeats_returns_them_in_the_order_of_the_keys(
    store: Store, twin: Store
) -> None:
    """`find_repeats` returns a repeat or None for each key, in the order of the keys."""
    one, two = await given(store, "one"), await given(store, "two")
    assert await twin.find_repeats(["two", "nobody", "one", "two"]) == [two, None, one, two]
    assert await twin.find_repeats([]) == []


async def test_a_removed_repeat_is_gone(store: Store) -> None:
    """A removed repeat is not listed and does not fire."""
    repeat = await given(store)
    assert await store.remove_repeats(["nobody", "digest", "digest"]) == [False, True, False]
    assert await store.list_repeats() == []
    assert await store.fire([firing(repeat)]) == [False]
    assert await claims(store) == []


async def test_pause_and_resume_say_whether_they_changed_anything(store: Store) -> None:
    """Each key gets an answer: whether its repeat was paused or resumed by this call."""
    await given(store)
    assert await store.resume_repeats(["digest", "nobody"]) == [False, False]
    assert await store.pause_repeats(["digest", "nobody"]) == [True, False]
    assert await store.pause_repeats(["digest"]) == [False]
    assert await store.resume_repeats(["digest"]) == [True]
    assert (await stored(store)).state is RepeatState.ACTIVE


async def test_a_paused_repeat_keeps_its_cursor(store: Store) -> None:
    """A paused repeat is not due and cannot fire; after a resume it goes on where it was."""
    repeat = await given(store)
    await store.pause_repeats(["digest"])
    assert (await store.due_repeats(10)).repeats == []
    assert await store.fire([firing(repeat)]) == [False]
    await store.resume_repeats(["digest"])
    assert (await store.due_repeats(10)).repeats == [repeat]


async def test_a_pause_has_a_reason_until_the_resume(store: Store, twin: Store) -> None:
    """`pause_repeats` stores its reason beside the repeat's own, and a resume removes it."""
    repeat = await given(store, reason="it catches up")
    assert await store.pause_repeats(["digest"], "3 failures in a row: ä\n") == [True]
    assert await store.pause_repeats(["digest"], "another") == [False]
    paused = replace(repeat, state=RepeatState.PAUSED, pause_reason="3 failures in a row: ä\n")
    assert await twin.find_repeats(["digest"]) == [paused]
    edited = await store.put_repeat(Repeat(key="digest", spec=b"another", cursor=1))
    assert (edited.state, edited.pause_reason) == (RepeatState.PAUSED, paused.pause_reason)
    assert await twin.resume_repeats(["digest"]) == [True]
    resumed = await stored(store)
    assert (resumed.state, resumed.pause_reason) == (RepeatState.ACTIVE, "")


async def test_failures_in_a_row_are_counted_and_a_success_resets_them(
    store: Store, twin: Store
) -> None:
    """`report_repeat` returns the new count and changes nothing else."""
    repeat = await given(store)
    other = await given(store, "other")
    assert [await store.report_repeat("digest", True) for _ in range(2)] == [1, 2]
    assert await twin.report_repeat("digest", True) == 3
    assert await stored(twin) == replace(repeat, failures=3)
    assert await stored(twin, "other") == other
    assert await store.report_repeat("digest", False) == 0
    assert await store.report_repeat("digest", False) == 0
    assert await stored(twin) == repeat
    assert await twin.report_repeat("digest", True) == 1


async def test_a_report_about_a_repeat_that_is_gone_counts_nothing(store: Store) -> None:
    """The jobs of a removed repeat still end; they must not bring it back."""
    await given(store)
    await store.remove_repeats(["digest"])
    assert await store.report_repeat("digest", True) == 0
    assert await store.report_repeat("nobody", False) == 0
    assert await store.list_repeats() == []


async def test_two_reports_at_once_are_both_counted(store: Store, twin: Store) -> None:
    """Workers that report at the same time do not overwrite each other."""
    await given(store)
    counts = await asyncio.gather(
        *(one.report_repeat("digest", True) for one in (store, twin) for _ in range(10))
    )
    assert sorted(counts) == list(range(1, 21))
    assert (await stored(store)).failures == 20


async def test_failures_are_kept_by_a_fire_an_edit_and_a_pause_but_not_by_a_resume(
    store: Store,
) -> None:
    """Only a success or a resume begins a new count. A paused repeat counts on."""
    repeat = await given(store)
    await store.report_repeat("digest", True)
    assert await store.fire([firing(repeat)]) == [True]
    assert (await stored(store)).failures == 1
    assert (await store.put_repeat(Repeat(key="digest", spec=b"b", cursor=1))).failures == 1
    assert (await store.put_repeat(Repeat(key="digest", spec=b"c", cursor=None))).failures == 1
    await store.pause_repeats(["digest"])
    assert await store.report_repeat("digest", True) == 2
    assert (await stored(store)).state is RepeatState.PAUSED
    await store.resume_repeats(["digest"])
    assert (await stored(store)).failures == 0


async def test_a_finished_repeat_can_be_neither_paused_nor_resumed(store: Store) -> None:
    """Both answers are False."""
    await given(store, state=RepeatState.FINISHED, cursor=None)
    assert await store.pause_repeats(["digest"]) == [False]
    assert await store.resume_repeats(["digest"]) == [False]


async def test_due_repeats_are_sorted_by_time_and_key(store: Store, clock: Ticker) -> None:
    """`due_repeats` returns what is due and the time of the next repeat that is not."""
    now = await store.now()
    for key, cursor in (
        ("c", now),
        ("a", now),
        ("b", now - 5),
        ("later", now + LONG),
        ("soon", now + SOON),
    ):
        await store.put_repeat(Repeat(key=key, spec=b"", cursor=cursor))
    due = await store.due_repeats(10)
    assert [repeat.key for repeat in due.repeats] == ["b", "a", "c"]
    assert due.next == now + SOON
    assert due.now >= now
    await clock.tick(PAST_SOON)
    assert [repeat.key for repeat in (await store.due_repeats(10)).repeats] == [
        "b",
        "a",
        "c",
        "soon",
    ]


async def test_due_repeats_beyond_the_limit_are_the_next(store: Store) -> None:
    """If more are due than the limit, the next time is that of the first left out."""
    now = await store.now()
    for n, key in enumerate("abc"):
        await store.put_repeat(Repeat(key=key, spec=b"", cursor=now - 10 + n))
    due = await store.due_repeats(2)
    assert [repeat.key for repeat in due.repeats] == ["a", "b"]
    assert due.next == now - 8


async def test_without_repeats_nothing_is_due(store: Store) -> None:
    """An empty store has no due repeat and no next time."""
    due = await store.due_repeats(10)
    assert due == DueRepeats(due.now, [], None)
