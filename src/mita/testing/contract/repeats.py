"""Stored rules that make jobs: fired once for each moment, however many schedulers run."""

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
    claimed_ids,
    claims,
    job,
    look,
    put,
)


async def given(store: Store, key: str = "digest", wait: int = 0, **more: Any) -> Repeat:
    """A stored repeat whose next fire is `wait` from now."""
    fields: dict[str, Any] = {
        "spec": b"spec of " + key.encode(),
        "cursor": await store.now() + wait,
        **more,
    }
    return await store.put_repeat(Repeat(key=key, **fields))


def firing(repeat: Repeat, next: Moment | None = None, **more: Any) -> Firing:
    """One turn of a repeat, which makes one job."""
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
    [found] = [repeat for repeat in await store.list_repeats() if repeat.key == key]
    return found


async def test_a_new_repeat_is_stored_as_given(store: Store, twin: Store) -> None:
    for key in ("b", "a"):
        repeat = Repeat(key=key, spec=bytes(range(256)), cursor=1_700_000_000_123)
        assert await store.put_repeat(repeat) == repeat
    assert [repeat.key for repeat in await twin.list_repeats()] == ["a", "b"]
    assert (await twin.list_repeats())[1] == Repeat(
        key="b", spec=bytes(range(256)), cursor=1_700_000_000_123
    )


async def test_the_same_again_changes_nothing(store: Store) -> None:
    """I7: every start of an app puts its repeats, and none of them may be set back."""
    repeat = await given(store, wait=LONG)
    assert await store.put_repeat(replace(repeat, cursor=0)) == repeat
    assert await store.list_repeats() == [repeat]


async def test_an_edit_keeps_the_count_and_grows_the_revision(store: Store) -> None:
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


async def test_an_edit_without_a_cursor_goes_on_where_the_repeat_stands(store: Store) -> None:
    """I7: a fire that came between the look and the edit has moved the cursor, and it must not be
    set back."""
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
    await given(store)
    assert await store.pause_repeats(["digest"]) == [True]
    edited = await store.put_repeat(Repeat(key="digest", spec=b"another", cursor=1))
    assert edited.state is RepeatState.PAUSED
    assert (
        await store.put_repeat(replace(edited, state=RepeatState.ACTIVE))
    ).state is RepeatState.PAUSED


async def test_a_repeat_that_is_over_can_be_put_again(store: Store) -> None:
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


async def test_a_repeat_that_cannot_be_computed_is_parked_in_sight(store: Store) -> None:
    """I15"""
    repeat = await given(store, state=RepeatState.PARKED, cursor=None, reason="no such zone")
    assert await stored(store) == repeat
    assert (await store.due_repeats(10)).repeats == []
    mended = await store.put_repeat(replace(repeat, state=RepeatState.ACTIVE, cursor=1, reason=""))
    assert (mended.state, mended.reason, mended.revision) == (
        RepeatState.ACTIVE,
        "",
        repeat.revision + 1,
    )


async def test_repeats_are_found_in_the_order_of_the_question(store: Store, twin: Store) -> None:
    one, two = await given(store, "one"), await given(store, "two")
    assert await twin.find_repeats(["two", "nobody", "one", "two"]) == [two, None, one, two]
    assert await twin.find_repeats([]) == []


async def test_what_was_planned_for_a_removed_repeat_does_not_fire_on_its_successor(
    store: Store,
) -> None:
    """I7: the successor stands at the same cursor, but under a revision of its own."""
    old = await given(store, revision=7)
    await store.remove_repeats(["digest"])
    new = await store.put_repeat(replace(old, revision=8))
    assert new.revision == 8
    assert await store.fire([firing(old), firing(new)]) == [False, True]


async def test_a_removed_repeat_is_gone(store: Store) -> None:
    repeat = await given(store)
    assert await store.remove_repeats(["nobody", "digest", "digest"]) == [False, True, False]
    assert await store.list_repeats() == []
    assert await store.fire([firing(repeat)]) == [False]
    assert await claims(store) == []


async def test_pause_and_resume_say_whether_they_changed_anything(store: Store) -> None:
    await given(store)
    assert await store.resume_repeats(["digest", "nobody"]) == [False, False]
    assert await store.pause_repeats(["digest", "nobody"]) == [True, False]
    assert await store.pause_repeats(["digest"]) == [False]
    assert await store.resume_repeats(["digest"]) == [True]
    assert (await stored(store)).state is RepeatState.ACTIVE


async def test_a_pause_keeps_the_cursor(store: Store) -> None:
    repeat = await given(store)
    await store.pause_repeats(["digest"])
    assert (await store.due_repeats(10)).repeats == []
    assert await store.fire([firing(repeat)]) == [False]
    await store.resume_repeats(["digest"])
    assert (await store.due_repeats(10)).repeats == [repeat]


async def test_a_finished_repeat_can_be_neither_paused_nor_resumed(store: Store) -> None:
    await given(store, state=RepeatState.FINISHED, cursor=None)
    assert await store.pause_repeats(["digest"]) == [False]
    assert await store.resume_repeats(["digest"]) == [False]


async def test_due_repeats_come_by_their_moment_and_then_by_key(
    store: Store, clock: Ticker
) -> None:
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


async def test_those_who_were_left_out_are_the_next(store: Store) -> None:
    now = await store.now()
    for n, key in enumerate("abc"):
        await store.put_repeat(Repeat(key=key, spec=b"", cursor=now - 10 + n))
    due = await store.due_repeats(2)
    assert [repeat.key for repeat in due.repeats] == ["a", "b"]
    assert due.next == now - 8


async def test_without_repeats_nothing_is_due(store: Store) -> None:
    due = await store.due_repeats(10)
    assert due == DueRepeats(due.now, [], None)


async def test_a_firing_moves_the_cursor_counts_and_makes_its_job(store: Store) -> None:
    """I7"""
    repeat = await given(store)
    turn = firing(repeat)
    assert await store.fire([turn]) == [True]
    assert await stored(store) == replace(repeat, cursor=turn.next, count=1, last=repeat.cursor)
    made = await look(store, turn.jobs[0].id)
    assert (made.repeat, made.fire_time) == ("digest", repeat.cursor)
    assert await claimed_ids(store) == [made.id]


async def test_of_many_schedulers_one_fires(store: Store, twin: Store) -> None:
    """I7"""
    repeat = await given(store)
    turns = [firing(repeat) for _ in range(10)]
    handles = [store, twin] * 5
    answers = await asyncio.gather(
        *(handle.fire([turn]) for handle, turn in zip(handles, turns, strict=True))
    )
    assert sum(won for [won] in answers) == 1
    assert len(await claims(store, 20)) == 1
    assert (await stored(store)).count == 1


async def test_a_scheduler_that_wakes_up_late_fires_nothing(store: Store) -> None:
    """I7"""
    repeat = await given(store)
    late = firing(repeat)
    assert await store.fire([firing(repeat)]) == [True]
    before = await stored(store)
    assert await store.fire([late]) == [False]
    assert await stored(store) == before
    assert await store.find([late.jobs[0].id]) == [None]


async def test_nothing_of_an_old_definition_fires_after_the_edit(store: Store) -> None:
    """I7"""
    repeat = await given(store)
    edited = await store.put_repeat(replace(repeat, spec=b"another"))
    assert edited.cursor == repeat.cursor
    assert await store.fire([firing(repeat)]) == [False]
    assert await store.fire([firing(edited)]) == [True]


async def test_each_firing_stands_by_itself(store: Store) -> None:
    """I7"""
    one, two = await given(store, "one"), await given(store, "two")
    stale = replace(firing(one), cursor=1)
    assert await store.fire([stale, firing(two), firing(one), firing(one)]) == [
        False,
        True,
        True,
        False,
    ]
    assert len(await claims(store)) == 2


async def test_windows_that_were_passed_over_are_not_counted(store: Store) -> None:
    repeat = await given(store)
    [_] = await store.fire([firing(repeat)])
    fired = await stored(store)
    passed = firing(fired, fired=0, last=None, jobs=())
    assert await store.fire([passed]) == [True]
    after = await stored(store)
    assert (after.cursor, after.count, after.last) == (passed.next, 1, repeat.cursor)


async def test_one_firing_may_make_many_jobs(store: Store) -> None:
    """I7"""
    repeat = await given(store)
    made = tuple(job(repeat="digest", fire_time=n) for n in range(30))
    assert await store.fire([firing(repeat, fired=30, jobs=made, last=29)]) == [True]
    assert sorted(await claimed_ids(store, 50)) == sorted(new.id for new in made)
    assert (await stored(store)).count == 30


async def test_a_fired_job_gives_way_to_its_living_predecessor(store: Store) -> None:
    repeat = await given(store)
    await put(store, unique="repeat:digest", when=When(LONG))
    assert await store.fire([firing(repeat, jobs=(job(unique="repeat:digest"),))]) == [True]
    assert await claims(store) == []
    assert (await stored(store)).count == 1
