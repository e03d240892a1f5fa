"""Reading: it shows what is stored, and changes nothing."""

from mita.model.flow import Arrival
from mita.model.job import State
from mita.model.outcome import Answer, CancelJob
from mita.model.record import DisplayState
from mita.model.time import HOUR, LATEST, When
from mita.model.view import JobFilter, Page, QueueView
from mita.ports.ids import new_id
from mita.ports.store import Store
from mita.rules.matching import SHOWN_OF_QUEUED, stored_state

from .clocks import Ticker
from .given import (
    LONG,
    PAST_SOON,
    QUEUE,
    SHORT,
    SOON,
    claims,
    dead,
    done,
    exact,
    fail,
    job,
    look,
    put,
    put_many,
    running,
    settled,
    state_of,
)

ANY = JobFilter()


async def ids(store: Store, want: JobFilter) -> list[str]:
    """The ids of the jobs that match, newest first."""
    return [found.id for found in (await store.page(want, None, 100)).jobs]


async def one_of_each(store: Store) -> dict[str, str]:
    """One job in every state that people see, all in one queue."""
    found = {"succeeded": await done(store), "failed": await dead(store)}
    found["running"] = (await running(store, resource="r")).id
    found["blocked"] = await put(store, resource="r")
    assert await claims(store) == []
    found["cancelled"] = await put(store)
    await store.amend([found["cancelled"]], CancelJob(keep=HOUR))
    found["ready"] = await put(store)
    found["scheduled"] = await put(store, when=When(LONG))
    found["waiting"] = await put(store, when=When(at=LATEST))
    return found


def counts(view: QueueView) -> dict[str, int]:
    """How many jobs of a queue are in each state that people see."""
    return {state.value: getattr(view, state) for state in DisplayState}


async def test_the_clock_of_a_store_never_runs_backwards(
    store: Store, twin: Store, clock: Ticker
) -> None:
    """`now` of any process is never earlier than an answer before it."""
    first = await store.now()
    await clock.tick(SHORT)
    second = await twin.now()
    assert second >= first + SHORT
    assert await store.now() >= second


async def test_every_state_is_counted_where_it_belongs(store: Store) -> None:
    """I13 conservation: `queues` counts each job in the state that people see."""
    found = await one_of_each(store)
    [view] = await store.queues()
    assert counts(view) == dict.fromkeys(found, 1)


async def test_jobs_without_a_due_time_are_counted_as_waiting(
    store: Store, twin: Store, clock: Ticker
) -> None:
    """`waiting` counts the jobs that wait for others or for a signal, of every priority and group.
    They are not scheduled, and become ready when they are told."""
    told = await put(store, when=When(at=LATEST))
    await put(store, when=When(at=LATEST), priority=9)
    await put(store, when=When(at=LATEST), fair="g", priority=1)
    await put(store, when=When(SOON), fair="g")
    await put(store, queue="other", when=When(at=LATEST))
    await put(store, fair="h")
    other, view = sorted(await twin.queues(), key=lambda view: view.name != "other")
    assert (other.waiting, other.scheduled, other.ready, other.oldest) == (1, 0, 0, None)
    assert (view.waiting, view.scheduled, view.ready) == (3, 1, 1)
    assert await store.arrive([Arrival(QUEUE, told, "a", b"", 1)]) == [Answer.DONE]
    await clock.tick(PAST_SOON)
    [view] = [view for view in await twin.queues() if view.name == QUEUE]
    assert (view.waiting, view.scheduled, view.ready) == (2, 0, 3)


async def test_states_add_up_to_what_was_enqueued_less_what_was_deleted(store: Store) -> None:
    """I13 conservation: the counts of all states add up to the jobs that exist."""
    await one_of_each(store)
    await store.enqueue([job() for _ in range(20)])
    forgotten = await put(store)
    await store.amend([forgotten], CancelJob(keep=0))
    [view] = await store.queues()
    assert sum(counts(view).values()) == 28
    assert len(await ids(store, ANY)) == 28


async def test_queues_come_by_name_and_stay_when_they_are_empty(store: Store) -> None:
    """`queues` is sorted by name, and a queue stays when its last job is gone."""
    for queue in ("mail", "a", "billing"):
        await store.amend([await put(store, queue=queue)], CancelJob(keep=0))
    assert await store.queues() == [QueueView(name=name) for name in ("a", "billing", "mail")]
    await store.pause(["new"])
    assert await store.queue_names() == ["a", "billing", "mail", "new"]


async def test_queues_shows_how_long_the_oldest_job_is_ready(store: Store, clock: Ticker) -> None:
    """`oldest` counts from the due time of the first ready job; scheduled jobs do not count."""
    await put(store, when=When(LONG))
    assert (await store.queues())[0].oldest is None
    await put(store)
    await clock.tick(SHORT)
    await put(store)
    oldest = (await store.queues())[0].oldest
    assert oldest is not None
    assert oldest == SHORT if exact(store, clock) else oldest >= SHORT
    await claims(store)
    assert (await store.queues())[0].oldest is None


async def test_a_scheduled_job_is_ready_when_it_is_due(store: Store, clock: Ticker) -> None:
    """A scheduled job counts as ready as soon as it is due, without any call in between."""
    await put(store, when=When(SOON))
    assert [(view.scheduled, view.ready) for view in await store.queues()] == [(1, 0)]
    await clock.tick(PAST_SOON)
    assert [(view.scheduled, view.ready) for view in await store.queues()] == [(0, 1)]


async def test_find_returns_jobs_in_the_order_of_the_ids(store: Store, twin: Store) -> None:
    """`find` returns a job or None for each id, in the order of the ids."""
    one, two = await put_many(store, 2)
    found = await twin.find([two, "f" * 32, one, two])
    assert [None if job is None else job.id for job in found] == [two, None, one, two]


async def test_pages_go_from_the_newest_id_to_the_oldest(store: Store) -> None:
    """Pages follow each other from the newest id to the oldest, without gaps."""
    made = [f"{n:032x}" for n in (5, 1, 4, 2, 3)]
    for id in made:
        await put(store, id=id)
    newest_first = sorted(made, reverse=True)
    first = await store.page(ANY, None, 2)
    assert ([job.id for job in first.jobs], first.after) == (newest_first[:2], newest_first[1])
    second = await store.page(ANY, first.after, 2)
    assert ([job.id for job in second.jobs], second.after) == (newest_first[2:4], newest_first[3])
    third = await store.page(ANY, second.after, 2)
    assert ([job.id for job in third.jobs], third.after) == (newest_first[4:], None)
    assert await store.page(ANY, newest_first[-1], 2) == Page([], None)


async def test_a_full_last_page_says_that_it_is_the_last(store: Store) -> None:
    """A page that is full and the last has no cursor."""
    await put_many(store, 2)
    assert (await store.page(ANY, None, 2)).after is None


async def test_a_page_shows_whole_jobs(store: Store) -> None:
    """The jobs of a page have the same fields as those of `find`."""
    id = await dead(store, resource="r", unique="u")
    assert (await store.page(ANY, None, 1)).jobs == [await look(store, id)]


async def test_a_page_can_be_filtered_by_state(store: Store) -> None:
    """A filter by state returns the jobs of that state."""
    by_state = await one_of_each(store)
    for state in (State.SUCCEEDED, State.FAILED, State.CANCELLED, State.RUNNING, State.BLOCKED):
        assert await ids(store, JobFilter(state=state)) == [by_state[state]]
    queued = [by_state[state] for state in SHOWN_OF_QUEUED]
    assert sorted(await ids(store, JobFilter(state=State.QUEUED))) == sorted(queued)
    for shown in DisplayState:
        assert await ids(store, JobFilter(shown=shown)) == [by_state[shown]]
        stored = JobFilter(state=stored_state(shown), shown=shown)
        assert await ids(store, stored) == [by_state[shown]]
    assert await ids(store, JobFilter(state=State.RUNNING, shown=DisplayState.SCHEDULED)) == []
    assert await ids(store, JobFilter(state=State.RUNNING, shown=DisplayState.FAILED)) == []


async def test_a_page_can_be_filtered_by_queue_task_key_and_repeat(store: Store) -> None:
    """Each of these filters returns the jobs that match, and they can be combined."""
    plain = await put(store)
    special = await put(
        store, queue="billing", task="charge", resource="r", unique="u", repeat="nightly"
    )
    for want in (
        JobFilter(queue="billing"),
        JobFilter(task="charge"),
        JobFilter(resource="r"),
        JobFilter(unique="u"),
        JobFilter(repeat="nightly"),
        JobFilter(queue="billing", task="charge", state=State.QUEUED),
    ):
        assert await ids(store, want) == [special]
    assert await ids(store, JobFilter(queue=QUEUE)) == [plain]
    assert await ids(store, JobFilter(queue=QUEUE, task="charge")) == []


async def test_a_page_can_be_filtered_by_the_text_of_the_error(store: Store) -> None:
    """The text is searched as it is: `%` and `_` are ordinary characters."""
    first, second = await running(store), await running(store)
    await settled(
        store, fail(first, "TimeoutError: 100% of it"), fail(second, "ValueError: _ is no number")
    )
    await done(store)
    assert await ids(store, JobFilter(error="0% o")) == [first.id]
    assert await ids(store, JobFilter(error="_ is")) == [second.id]
    assert await ids(store, JobFilter(error="%")) == [first.id], "a text and not a pattern"
    assert sorted(await ids(store, JobFilter(error="Error"))) == sorted([first.id, second.id])
    assert await ids(store, JobFilter(error="nowhere")) == []


async def test_the_error_filter_looks_at_type_and_message_only(
    store: Store,
) -> None:
    """A line of source code in a traceback often names an error that was not raised."""
    trace = (
        '\n  File "shop.py", line 3, in send\n    raise KeyError(name) from '
        "IndexError()\ncaused by IndexError: 7"
    )
    plain, long, bare = await running(store), await running(store), await running(store)
    await settled(
        store,
        fail(plain, f"app.ValueError: no name{trace}"),
        fail(long, f"LookupError: first line\nsecond line{trace}"),
        fail(bare, "WorkerLost: KeyError"),
    )
    assert await ids(store, JobFilter(error="KeyError")) == [bare.id]
    assert await ids(store, JobFilter(error="IndexError")) == []
    assert await ids(store, JobFilter(error="shop.py")) == []
    assert await ids(store, JobFilter(error="app.ValueError: no name")) == [plain.id]
    assert await ids(store, JobFilter(error="second line")) == [long.id]
    assert await ids(store, JobFilter(error="line\nsecond")) == [long.id]


async def test_reading_changes_nothing(store: Store, twin: Store) -> None:
    """No reading verb changes a job."""
    by_state = await one_of_each(store)
    before = await store.find(list(by_state.values()))
    for _ in range(2):
        await twin.queues()
        await twin.page(ANY, None, 3)
        await twin.resources()
        await twin.workers()
        await twin.list_repeats()
        await twin.due_repeats(10)
        for id in by_state.values():
            await twin.timeline(id)
            await twin.ahead(id)
    assert await store.find(list(by_state.values())) == before
    assert await state_of(twin, by_state["running"]) is State.RUNNING


async def test_the_doctor_returns_findings(store: Store) -> None:
    """I11 durable ack: `doctor` returns at least one finding, each with a subject and a text."""
    findings = await store.doctor()
    assert findings
    assert all(finding.what and finding.found for finding in findings)


async def test_a_store_that_is_up_to_date_has_nothing_to_migrate(store: Store) -> None:
    """`migrate` of a store that was just opened returns no steps."""
    assert await store.migrate() == []


async def test_a_record_can_be_exported_as_it_is_stored(store: Store) -> None:
    """I15 never drop: `raw` returns the stored bytes of a job, and None for an unknown one."""
    id = await put(store, headers=b"\xa6marker")
    parts = await store.raw(id)
    assert parts is not None
    assert b"marker" in b"".join(parts.values())
    assert await store.raw(new_id()) is None
