"""What a run stores: its progress, and values that must not be computed twice."""

from mita.model.outcome import Progress, RetryJob
from mita.model.time import NOW
from mita.ports.store import OnceValue, Store

from .clocks import Ticker
from .given import (
    LONG,
    PAST,
    SHORT,
    claim_one,
    fail,
    job,
    look,
    release,
    retry,
    running,
    settled,
    succeed,
)


async def test_progress_is_shown_and_given_to_the_next_run(store: Store, twin: Store) -> None:
    """The last progress of a run can be read by every process and is part of the next claim."""
    claim = await running(store)
    assert claim.progress is None
    assert await store.progress([Progress(claim, b"\x00half")]) == [True]
    assert (await look(twin, claim.id)).progress == b"\x00half"
    assert await store.progress([Progress(claim, b"most")]) == [True]
    await settled(store, retry(claim))
    again = await claim_one(store)
    assert again.progress == b"most"
    await settled(store, fail(again))
    await store.amend([claim.id], RetryJob(NOW))
    assert (await look(store, claim.id)).progress == b"most"


async def test_only_the_current_claim_can_report_progress(store: Store) -> None:
    """I3 one outcome: progress of an old claim is refused."""
    old, other = await running(store), await running(store)
    await settled(store, release(old))
    await claim_one(store)
    before = await look(store, old.id)
    assert await store.progress([Progress(old, b"late"), Progress(other, b"mine")]) == [False, True]
    assert await look(store, old.id) == before
    assert (await look(store, other.id)).progress == b"mine"


async def test_the_first_once_value_stays(store: Store, twin: Store) -> None:
    """A second value under the same name is not stored; the first one is returned."""
    claim = await running(store)
    assert await store.load_once(claim, "charged", shared=False) is None
    assert (
        await store.store_once(OnceValue(claim=claim, name="charged", value=b"first")) == b"first"
    )
    assert (
        await twin.store_once(OnceValue(claim=claim, name="charged", value=b"second")) == b"first"
    )
    assert await twin.load_once(claim, "charged", shared=False) == b"first"


async def test_a_once_value_can_be_empty(store: Store) -> None:
    """An empty value is a value."""
    claim = await running(store)
    assert await store.store_once(OnceValue(claim=claim, name="seen", value=b"")) == b""
    assert await store.store_once(OnceValue(claim=claim, name="seen", value=b"more")) == b""


async def test_a_once_value_belongs_to_one_job_and_one_name(store: Store) -> None:
    """Another job, or another name, does not see it."""
    claim, other = await running(store), await running(store)
    await store.store_once(OnceValue(claim=claim, name="charged", value=b"yes"))
    assert await store.load_once(other, "charged", shared=False) is None
    assert await store.load_once(claim, "mailed", shared=False) is None
    assert await store.load_once(claim, "charged", shared=True) is None


async def test_a_once_value_lasts_through_retries(store: Store) -> None:
    """The next run of the job finds the value of the last one."""
    claim = await running(store)
    await store.store_once(OnceValue(claim=claim, name="charged", value=b"yes"))
    await settled(store, retry(claim))
    again = await claim_one(store)
    assert await store.load_once(again, "charged", shared=False) == b"yes"
    assert await store.store_once(OnceValue(claim=again, name="charged", value=b"twice")) == b"yes"


async def test_a_once_value_is_deleted_with_its_job(store: Store) -> None:
    """A new job with the id of a deleted one does not find its values."""
    claim = await running(store)
    await store.store_once(OnceValue(claim=claim, name="charged", value=b"yes"))
    await settled(store, succeed(claim, keep=0))
    await store.enqueue([job(id=claim.id)])
    again = await claim_one(store)
    assert await store.load_once(again, "charged", shared=False) is None


async def test_only_the_current_claim_can_store_a_once_value(store: Store) -> None:
    """I3 one outcome: a value of an old claim is refused."""
    old = await running(store)
    await settled(store, release(old))
    assert await store.store_once(OnceValue(claim=old, name="charged", value=b"late")) is None
    assert (
        await store.store_once(OnceValue(claim=old, name="charged", value=b"late", keep=LONG))
        is None
    )
    new = await claim_one(store)
    assert await store.load_once(new, "charged", shared=False) is None
    assert await store.load_once(new, "charged", shared=True) is None


async def test_a_shared_once_value_is_seen_by_every_job(store: Store, twin: Store) -> None:
    """A shared value is found by other jobs, and stays when its job is deleted."""
    claim, other = await running(store), await running(store, queue="billing")
    assert (
        await store.store_once(OnceValue(claim=claim, name="order:7", value=b"paid", keep=LONG))
        == b"paid"
    )
    assert await twin.load_once(other, "order:7", shared=True) == b"paid"
    assert (
        await twin.store_once(OnceValue(claim=other, name="order:7", value=b"again", keep=LONG))
        == b"paid"
    )
    assert await store.load_once(claim, "order:7", shared=False) is None
    await settled(store, succeed(claim, keep=0))
    assert await twin.load_once(other, "order:7", shared=True) == b"paid", "it outlives its job"


async def test_a_shared_once_value_expires(store: Store, clock: Ticker) -> None:
    """After its time a shared value is gone and can be stored anew."""
    claim = await running(store)
    await store.store_once(OnceValue(claim=claim, name="order:7", value=b"paid", keep=SHORT))
    await clock.tick(PAST)
    assert await store.load_once(claim, "order:7", shared=True) is None
    assert (
        await store.store_once(OnceValue(claim=claim, name="order:7", value=b"anew", keep=LONG))
        == b"anew"
    )
    assert await store.load_once(claim, "order:7", shared=True) == b"anew"
