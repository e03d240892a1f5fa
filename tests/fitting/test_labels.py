"""Tags, metadata and ids that the caller chose, on an ordinary app."""

from collections.abc import AsyncIterator
from datetime import UTC
from typing import Any

import msgspec
import pytest

from mita import Abort, Every, Job, Mita, UsageError
from mita.client.enqueue import new_jobs
from mita.model.job import NewJob
from mita.model.policy import JobOptions
from mita.rules.labels import METADATA_BYTES, MOST_TAGS
from mita.rules.options import PLAIN_OPTIONS, options_of
from tests.api.conftest import working


async def ids(app: Mita, **filters: Any) -> list[str]:
    return [job.id for job in (await app.jobs(**filters)).jobs]


async def test_jobs_have_the_tags_of_their_task_or_of_the_call(app: Mita) -> None:
    @app.task(tags=["mail", "customer:{customer}"])
    async def send(customer: int) -> None: ...

    first = await send.enqueue(42)
    second = await send.options(tags=["urgent", "urgent"]).enqueue(42)
    assert await ids(app, tag="customer:42") == [first.id]
    assert await ids(app, tag="urgent") == [second.id]
    record = await first.get()
    assert record is not None
    assert record.tags == ("mail", "customer:42")


async def test_tags_survive_other_options_times_and_repeats(app: Mita) -> None:
    @app.task(tags=["nightly"])
    async def report() -> None: ...

    timed = await report.after(60).options(deadline=600, metadata={"by": "Ada"}).enqueue()
    await app.repeat("report", report.call(), Every(3600))
    await app.repeats.trigger("report")
    found = (await app.jobs(tag="nightly")).jobs
    assert len(found) == 2
    assert [job.metadata for job in found if job.id == timed.id] == [{"by": "Ada"}]


async def test_many_jobs_are_cancelled_by_their_tag(app: Mita) -> None:
    @app.task
    async def send(customer: int) -> None: ...

    calls = [send.options(tags=[f"customer:{n % 2}"]).call(n) for n in range(6)]
    await app.enqueue_many(calls)
    result = await app.cancel_many(tag="customer:1")
    assert (result.matched, result.done) == (3, 3)


async def test_a_handler_and_middleware_see_tags_and_metadata(app: Mita) -> None:
    seen: list[Any] = []

    @app.middleware
    async def watch(job: Job) -> AsyncIterator[None]:
        seen.append((job.tags, job.metadata))
        yield

    @app.task
    async def send(job: Job) -> dict[str, Any]:
        job.metadata["changed"] = True
        return job.metadata

    given = {"request": "r-17", "n": 2**80, "deep": [1.5, None, {"ok": True}]}
    async with working(app):
        handle = await send.options(tags=["a"], metadata=given).enqueue()
        result = await handle.result(10)
    assert result == given
    assert seen == [(("a",), given)]


async def test_an_id_that_exists_changes_nothing(app: Mita) -> None:
    @app.task
    async def send(order: int) -> int:
        return order

    first = await send.options(id="order-7-mail").enqueue(7)
    again = await send.options(id="order-7-mail", queue="other", tags=["late"]).enqueue(8)
    assert (first.id, first.created) == ("order-7-mail", True)
    assert (again.id, again.created) == ("order-7-mail", False)
    async with working(app):
        assert await again.result(10) == 7
    assert await ids(app, tag="late") == []
    many = [send.options(id=f"o-{n % 2}").call(n) for n in range(4)]
    assert [handle.created for handle in await app.enqueue_many(many)] == [True, True, False, False]


async def test_pages_go_on_after_a_chosen_id(app: Mita) -> None:
    @app.task
    async def send() -> None: ...

    made = [(await send.options(id=f"Order_{n}").enqueue()).id for n in range(5)]
    met, after = list[str](), None
    for _ in range(3):
        page = await app.jobs(limit=2, after=after)
        met += [job.id for job in page.jobs]
        after = page.after
    assert met == sorted(made, reverse=True)
    assert after is None


async def test_an_enqueued_event_has_the_tags(app: Mita) -> None:
    @app.task
    async def send() -> None: ...

    async with app.events(kinds=["enqueued"]) as events:
        one = await send.options(tags=["a", "b"]).enqueue()
        other = await send.enqueue()
        told = aiter(events)
        seen = [await anext(told), await anext(told)]
    assert [(event.id, event.tags) for event in seen] == [(one.id, ("a", "b")), (other.id, ())]


WRONG: dict[str, tuple[dict[str, Any], str]] = {
    "text for a list": ({"tags": "customer:42"}, "give a list, ['customer:42']"),
    "no list": ({"tags": 42}, "give a list of texts"),
    "no text": ({"tags": [42]}, "tag 42 is not usable"),
    "empty": ({"tags": [""]}, "1 to 250 printable"),
    "long": ({"tags": ["x" * 251]}, "1 to 250 printable"),
    "a line": ({"tags": ["a\nb"]}, "printable"),
    "many": ({"tags": [str(n) for n in range(MOST_TAGS + 1)]}, f"at most {MOST_TAGS}"),
    "unknown": ({"tags": ["x:{y}"]}, "names 'y', which is not a parameter"),
    "no dict": ({"metadata": ["a"]}, "give a dict"),
    "key": ({"metadata": {1: "a"}}, "the key 1 is no text"),
    "time": ({"metadata": {"at": UTC}}, "metadata['at'] is datetime"),
    "nan": ({"metadata": {"a": [float("nan")]}}, "metadata['a'][0] is nan"),
    "large": ({"metadata": {"a": "x" * METADATA_BYTES}}, "the limit is 4,096"),
    "surrogate": ({"metadata": {"a": "\ud800"}}, "cannot be stored as JSON"),
    "point": ({"id": "flow.000001"}, "id='flow.000001' is not usable"),
    "blank": ({"id": "order 7"}, "is not usable"),
    "no id": ({"id": ""}, "is not usable"),
    "long id": ({"id": "x" * 65}, "1 to 64"),
    "number": ({"id": 7}, "id=7 is not usable"),
    "slash": ({"id": "a/b"}, "is not usable"),
}


@pytest.mark.parametrize("wrong", WRONG)
def test_wrong_labels_are_refused(wrong: str) -> None:
    choices, words = WRONG[wrong]
    app = Mita("memory://")

    @app.task
    async def send(customer: int = 1) -> None: ...

    with pytest.raises(UsageError) as error:
        send.options(**choices)
    assert words in str(error.value)


def test_a_secret_argument_is_in_no_tag() -> None:
    app = Mita("memory://")
    with pytest.raises(UsageError, match="an argument that is secret"):

        @app.task(tags=["user:{password}"], secret=["password"])
        async def log_in(password: str) -> None: ...


async def test_an_id_belongs_to_one_job(app: Mita) -> None:
    with pytest.raises(UsageError, match="id names one job"):

        @app.task(id="x")
        async def wrong() -> None: ...

    @app.task
    async def send() -> None: ...

    chosen = send.options(id="x").call()
    with pytest.raises(UsageError, match="a step has its id from its flow"):
        app.flow("f").add(chosen)
    with pytest.raises(UsageError, match="a repeat gives each of its jobs an id"):
        await app.repeat("r", chosen, Every(60))


async def test_a_child_has_no_id_of_its_own(app: Mita) -> None:
    @app.task
    async def send() -> None: ...

    @app.task
    async def parent(job: Job) -> str:
        try:
            await job.run(send.options(id="x").call())
        except UsageError as error:
            raise Abort(str(error)) from error
        return "ran"

    async with working(app):
        handle = await parent.enqueue()
        with pytest.raises(Exception, match="a child job has its id from its parent"):
            await handle.result(10)


async def test_the_parent_of_a_child_may_have_a_chosen_id(app: Mita) -> None:
    @app.task(tags=["inner"])
    async def inner() -> int:
        return 5

    @app.task
    async def outer(job: Job) -> int:
        return await job.run(inner.call())

    async with working(app):
        handle = await outer.options(id="order-7").enqueue()
        assert await handle.result(10) == 5
    [child] = (await app.jobs(tag="inner")).jobs
    assert child.id.startswith("order-7.")


def test_a_plain_job_pays_nothing_for_labels() -> None:
    app = Mita("memory://")

    @app.task
    async def send() -> None: ...

    call = send.call()
    assert call.limits is None
    [job] = new_jobs([call])
    assert job == NewJob(
        id=job.id,
        task=job.task,
        queue="default",
        payload=job.payload,
        options=PLAIN_OPTIONS,
        fresh=True,
    )
    assert msgspec.msgpack.encode(JobOptions()) == b"\x80"
    [labelled] = new_jobs([send.options(id="a").call()])
    assert not labelled.fresh, "another queue may know the id"


async def test_labels_that_cannot_be_read_lose_no_job(app: Mita) -> None:
    broken = msgspec.msgpack.encode({"metadata": b"{not json", "tags": ["a"]})
    assert options_of(broken).tags == ("a",)
    wrong = msgspec.msgpack.encode({"tags": 7})
    store = await app.open_store()
    new = [
        NewJob(id=id, task="t", queue="q", payload=b"", options=options, tags=("a",))
        for id, options in (("broken", broken), ("wrong", wrong))
    ]
    await store.enqueue(new)
    await store.close()
    read = [await app.get("broken"), await app.get("wrong")]
    assert [(job.tags, job.metadata, job.secret) for job in read if job] == [
        (("a",), {}, False),
        ((), {}, True),
    ]
