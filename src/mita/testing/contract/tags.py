"""Tags and ids that a caller chose: jobs are found by their tags, and an id makes one job."""

from typing import Any

from mita.model.job import NewJob, Receipt
from mita.model.time import HOUR, When
from mita.model.view import JobFilter
from mita.ports.store import Store
from mita.rules.labels import with_tags

from .clocks import Ticker
from .given import LONG, PAST, SHORT, claims, dead, done, job, look, put, running, settled, succeed

ADA, BO = "customer:ada", 'größe "L", {x} \\ 100%'


def tagged(*tags: str, **more: Any) -> NewJob:
    """A job with these tags, as a client makes it."""
    return job(options=with_tags(b"\x80", tags), tags=tags, **more)


async def found(store: Store, tag: str, **more: Any) -> list[str]:
    """The ids of the jobs with this tag, newest first."""
    return [one.id for one in (await store.page(JobFilter(tag=tag, **more), None, 100)).jobs]


async def test_jobs_are_found_by_their_tags(store: Store) -> None:
    """A page of a tag has the jobs with exactly this tag, in all queues."""
    first, second, third = tagged(ADA), tagged(ADA, BO, resource="r"), tagged(BO, unique="u")
    other, similar = job(payload=ADA.encode()), tagged(f"{ADA}2", queue="post")
    await store.enqueue([first, other, second])
    await store.enqueue([third])
    await store.enqueue([similar])
    assert await found(store, ADA) == sorted([first.id, second.id], reverse=True)
    assert await found(store, BO) == sorted([second.id, third.id], reverse=True)
    assert await found(store, f"{ADA}2") == [similar.id]
    assert await found(store, f"{ADA}2", queue="mail") == []
    assert await found(store, "customer") == []


async def test_a_tag_is_one_filter_among_others(store: Store) -> None:
    """A job must match the tag and the other filters."""
    await store.enqueue([tagged(ADA)])
    [claim] = await claims(store)
    later = tagged(ADA, task="pack", when=When(LONG))
    await store.enqueue([later, tagged(BO, task="pack")])
    assert await found(store, ADA, task="pack") == [later.id]
    assert await found(store, ADA, task="send") == [claim.id]


async def test_pages_of_a_tag_show_each_job_once(store: Store) -> None:
    """Pages of a tag follow each other without a gap, like other pages."""
    made = [tagged(ADA) if n % 3 else job(payload=ADA.encode()) for n in range(20)]
    await store.enqueue(made)
    wanted = sorted((one.id for one in made if one.tags), reverse=True)
    met, after = list[str](), None
    for _ in wanted:
        page = await store.page(JobFilter(tag=ADA), after, 2)
        met += [one.id for one in page.jobs]
        after = page.after
        if after is None:
            break
    assert met == wanted


async def test_a_tag_stays_with_its_job(store: Store) -> None:
    """A job has its tags in every state."""
    ended = [await done(store, options=with_tags(b"\x80", (ADA,)), tags=(ADA,))]
    ended.append(await dead(store, options=with_tags(b"\x80", (ADA,)), tags=(ADA,)))
    claim = await running(store, options=with_tags(b"\x80", (ADA,)), tags=(ADA,))
    assert claim.options == with_tags(b"\x80", (ADA,))
    assert await found(store, ADA) == sorted([*ended, claim.id], reverse=True)


async def test_a_deleted_job_is_found_by_no_tag(store: Store, clock: Ticker) -> None:
    """I14 bounded: tags are deleted with their job, and a new job of the id has none of them."""
    claim = await running(store, options=with_tags(b"\x80", (ADA,)), tags=(ADA,))
    await settled(store, succeed(claim, keep=SHORT))
    kept = tagged(ADA)
    await store.enqueue([kept])
    await clock.tick(PAST)
    assert await store.prune(100, 10_000) == 1
    assert await found(store, ADA) == [kept.id]
    again = job(id=claim.id)
    await store.enqueue([again])
    assert await found(store, ADA) == [kept.id]


async def test_a_debounce_replaces_the_tags(store: Store) -> None:
    """A job that is debounced has the tags of the newest enqueue."""
    more: dict[str, Any] = {"unique": "u", "debounce": LONG, "when": When(LONG)}
    first = tagged(ADA, **more)
    await store.enqueue([first])
    await store.enqueue([tagged(BO, **more)])
    assert (await found(store, ADA), await found(store, BO)) == ([], [first.id])
    await store.enqueue([job(**more)])
    assert (await found(store, ADA), await found(store, BO)) == ([], [])


async def test_a_chosen_id_makes_one_job(store: Store) -> None:
    """An id that exists changes nothing, whatever the second job asks for."""
    chosen = job(id="Order_7-mail", payload=b"\x91\x01")
    assert await store.enqueue([chosen]) == [Receipt("Order_7-mail")]
    again = [
        job(id=chosen.id, payload=b"\x91\x02"),
        job(id=chosen.id, queue="post"),
        job(id=chosen.id, unique="u"),
        tagged(ADA, id=chosen.id),
        job(id=chosen.id, when=When(HOUR), priority=9, fair="f"),
    ]
    for one in again:
        assert await store.enqueue([one]) == [Receipt(chosen.id, created=False)], one
    kept = await look(store, chosen.id)
    assert (kept.payload, kept.queue, kept.priority) == (chosen.payload, chosen.queue, 5)
    assert await found(store, ADA) == []
    assert [claim.id for claim in await claims(store)] == [chosen.id]
    assert await claims(store, queues=["post"]) == []


async def test_a_chosen_id_is_taken_as_long_as_its_job_is_kept(store: Store) -> None:
    """The id of a job that has ended is taken, too."""
    id = await done(store, id="order-7")
    assert await store.enqueue([job(id=id)]) == [Receipt(id, created=False)]


async def test_chosen_ids_of_one_batch(store: Store) -> None:
    """Of jobs with the same id in one batch, the first is stored. Case matters."""
    batch = [job(id="a-1"), job(id="A-1"), job(id="a-1", payload=b"\x91\x01"), job()]
    receipts = await store.enqueue(batch)
    assert [one.created for one in receipts] == [True, True, False, True]
    assert (await look(store, "a-1")).payload == b"\x90"
    assert len(await claims(store)) == 3


async def test_a_job_with_a_chosen_id_lives_like_any_other(store: Store) -> None:
    """A job with a short id is claimed, settled and listed."""
    await put(store, id="9")
    [claim] = await claims(store)
    await settled(store, succeed(claim))
    assert [one.id for one in (await store.page(JobFilter(), None, 10)).jobs] == ["9"]
