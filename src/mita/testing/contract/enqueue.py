"""Enqueuing jobs."""

from mita.model.gate import Gate
from mita.model.job import Job, NewJob, Receipt, State, WhenBusy
from mita.model.outcome import RescheduleJob
from mita.model.time import NOW, When
from mita.ports.ids import new_id
from mita.ports.store import Store

from .clocks import Ticker
from .given import (
    LONG,
    PAST,
    QUEUE,
    SHORT,
    claim_one,
    exact,
    job,
    jobs,
    look,
    put,
)


async def test_an_enqueued_job_has_every_field_it_was_given(store: Store) -> None:
    """I1 no loss: every field of an enqueued job can be read back, byte for byte."""
    new = NewJob(
        id=new_id(),
        task="charge",
        queue="billing",
        payload=bytes(range(256)),
        options=b"\x80",
        headers=b"\x81\x00\xff",
        priority=8,
        unique="order:1",
        unique_for=LONG,
        resource="account:42",
        limit=3,
        when_busy=WhenBusy.SKIP,
        repeat="nightly",
        fire_time=1_699_999_999_000,
        gates=(Gate("gpu", 4), Gate("host:a", None, 100_000, 10)),
        fair="tenant:7",
        weight=2500,
    )
    assert await store.enqueue([new]) == [Receipt(new.id, created=True)]
    found = await look(store, new.id)
    said = {name: getattr(new, name) for name in NewJob.__struct_fields__ if hasattr(found, name)}
    assert {name: getattr(found, name) for name in said} == said
    assert found == Job(**said, state=State.QUEUED, due=found.due, created=found.created), (
        "and nothing has happened yet"
    )
    assert found.due == found.created


async def test_receipts_come_in_the_order_of_the_jobs(store: Store) -> None:
    """`enqueue` returns one receipt for each job, in the order of the jobs."""
    batch = jobs(5)
    await store.enqueue([batch[3]])
    expected = [Receipt(new.id, created=new is not batch[3]) for new in batch]
    assert await store.enqueue(batch) == expected


async def test_an_id_that_exists_changes_nothing(store: Store, twin: Store) -> None:
    """A job whose id exists is not created, even if its other fields differ."""
    id = await put(store, priority=3)
    before = await look(store, id)
    again = job(
        id=id,
        task="other",
        queue="elsewhere",
        priority=9,
        unique="k",
        resource="r",
        when=When(LONG),
    )
    assert await twin.enqueue([again]) == [Receipt(id, created=False)]
    assert await look(store, id) == before
    assert [view.name for view in await store.queues()] == [QUEUE]


async def test_an_id_twice_in_one_batch_makes_one_job(store: Store) -> None:
    """The second job of a batch with the same id is not created."""
    new = job()
    assert await store.enqueue([new, new]) == [
        Receipt(new.id, created=True),
        Receipt(new.id, created=False),
    ]
    assert (await store.queues())[0].ready == 1


async def test_enqueuing_a_running_job_again_does_not_start_it_again(store: Store) -> None:
    """I4 bounded duplicates: enqueuing the id of a running job neither changes nor starts it."""
    new = job()
    await store.enqueue([new])
    claim = await claim_one(store)
    await store.enqueue([new])
    assert (await look(store, claim.id)).state is State.RUNNING
    assert (await store.claim([QUEUE], 10, LONG, "w2")).claims == []


async def test_another_process_sees_a_job_at_once(store: Store, twin: Store) -> None:
    """As soon as `enqueue` returns, another process can read and claim the job."""
    id = await put(store)
    assert (await look(twin, id)).state is State.QUEUED
    assert (await claim_one(twin)).id == id


async def test_a_time_in_the_past_means_now(store: Store) -> None:
    """A due time in the past becomes the time of the enqueue."""
    now = await store.now()
    found = await look(store, await put(store, when=When(at=now - LONG)))
    assert found.due >= now
    assert found.due == found.created


async def test_a_delay_counts_from_the_clock_of_the_store(store: Store, clock: Ticker) -> None:
    """A delay is added to the time of the store, not to that of the caller."""
    found = await look(store, await put(store, when=When(LONG)))
    assert found.due == found.created + LONG
    await clock.tick(PAST)
    later = await look(store, await put(store, when=When(LONG)))
    assert later.due - found.due == PAST if exact(store, clock) else later.due > found.due


async def test_a_point_in_time_is_kept_to_the_millisecond(store: Store) -> None:
    """A due time that the caller names is stored exactly."""
    at = await store.now() + LONG + 123
    assert (await look(store, await put(store, when=When(at=at)))).due == at


async def test_one_call_enqueues_more_jobs_than_one_statement_can_bind(store: Store) -> None:
    """I1 no loss: one `enqueue` of 1,500 jobs stores all of them."""
    batch = jobs(1500)
    assert all(receipt.created for receipt in await store.enqueue(batch))
    found = await store.find([new.id for new in batch])
    assert [one.id for one in found if one is not None] == [new.id for new in batch]


async def test_keys_may_hold_any_printable_text(store: Store) -> None:
    """Quotes, wildcards, separators and letters of any script are fine in unique and resource
    keys."""
    odd = "Zoë's {account}: 100% * > . ; drop table -- \\ \" 東京"
    id = await put(store, unique=odd, resource=odd)
    claim = await claim_one(store)
    assert (claim.unique, claim.resource) == (odd, odd)
    assert await store.enqueue([job(unique=odd)]) == [Receipt(id, created=False)]
    assert [view.key for view in await store.resources(key=odd)] == [odd]


async def test_empty_lists_are_accepted(store: Store) -> None:
    """Every verb takes an empty list and returns an empty one."""
    assert await store.enqueue([]) == []
    assert await store.settle([]) == []
    assert await store.extend([], LONG) == []
    assert await store.progress([]) == []
    assert await store.amend([], RescheduleJob(NOW)) == []
    assert await store.find([]) == []
    assert await store.fire([]) == []
    turn = await store.settle_and_claim([], [], 10, SHORT, "w1")
    assert (turn.took, turn.claims, turn.again) == ([], [], None)
