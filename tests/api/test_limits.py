"""Limits as people write them: several keys, rates, fair shares, debounce and throttle."""

from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest

from mita import Every, Job, Key, Mita, Rate, StoredLimit, UsageError
from mita.model.gate import Gate
from mita.testing import lab


@pytest.fixture
def app() -> Mita:
    return Mita("memory://")


async def stored(app: Mita, id: str) -> Any:
    [job] = await (await app._pool.store()).find([id])
    return job


async def test_several_keys_and_a_rate_are_stored_with_the_job(app: Mita) -> None:
    @app.task(
        resource=["account:{account}", Key("gpu", limit=4), "disk"],
        limit=2,
        rate=Rate(10, per=1, key="host:{host}", burst=5),
        fair="{account}",
        fair_weight=2.5,
    )
    async def work(account: int, host: str) -> None: ...

    job = await stored(app, (await work.enqueue(7, "a")).id)
    assert (job.resource, job.limit) == ("account:7", 2)
    assert job.gates == (Gate("gpu", 4), Gate("disk", 2), Gate("host:a", None, 100_000, 5))
    assert (job.fair, job.weight) == ("7", 2500)
    record = await app.get(job.id)
    assert record is not None
    assert record.keys == ("account:7", "gpu", "disk", "host:a")
    assert record.fair == "7"


async def test_a_rate_without_a_key_belongs_to_the_task(app: Mita) -> None:
    @app.task(rate=Rate(60, per=timedelta(minutes=1)))
    async def ping() -> None: ...

    job = await stored(app, (await ping.enqueue()).id)
    assert (job.resource, job.gates) == (None, (Gate("task:ping", None, 1_000_000, 1),))


async def test_the_time_between_two_starts_is_never_too_short(app: Mita) -> None:
    assert Rate(3, per=1).interval_us == 333_334
    assert Rate(1_000_000, per=1).interval_us == 1


async def test_a_job_can_have_other_limits_than_its_task(app: Mita) -> None:
    @app.task(resource=["a", "b"], rate=Rate(1))
    async def work() -> None: ...

    job = await stored(app, (await work.options(resource="c", rate=None).enqueue()).id)
    assert (job.resource, job.gates) == ("c", ())
    bulk = await app.enqueue_many([work.call(), work.options(rate=None).call()])
    assert [len((await stored(app, one.id)).gates) for one in bulk] == [2, 1]


async def test_a_debounce_runs_once_with_the_newest_arguments(app: Mita) -> None:
    seen = []

    @app.task
    async def index(doc: int, version: int) -> None:
        seen.append((doc, version))

    async with lab(app) as bench:
        task = index.options(unique="doc:{doc}", debounce=5, debounce_max=60)
        handles = [await task.enqueue(7, version) for version in range(3)]
        assert [handle.created for handle in handles] == [True, False, False]
        assert len({handle.id for handle in handles}) == 1
        await bench.advance(4)
        await task.enqueue(7, 3)
        await bench.advance(4)
        assert seen == []
        await bench.advance(2)
        assert seen == [(7, 3)]


async def test_a_throttle_lets_one_job_in(app: Mita) -> None:
    runs = []

    @app.task(unique="ping:{user}", throttle=10)
    async def ping(user: int) -> None:
        runs.append(user)

    async with lab(app) as bench:
        first = await ping.enqueue(3)
        await bench.advance(5)
        assert (await ping.enqueue(3)).id == first.id
        await bench.advance(6)
        assert (await ping.enqueue(3)).created
        await bench.drain()
    assert runs == [3, 3]


async def test_a_rate_spaces_starts_in_the_lab(app: Mita) -> None:
    starts = []

    @app.task(rate=Rate(1, per=10))
    async def ping(job: Job, n: int) -> None:
        starts.append(n)

    async with lab(app) as bench:
        await app.enqueue_many([ping.call(n) for n in range(3)])
        for expected in ([0], [0, 1], [0, 1, 2]):
            await bench.drain()
            assert starts == expected
            await bench.advance(10)


async def test_limits_of_queues_and_keys(app: Mita) -> None:
    await app.limit_queue("mail", concurrency=50, rate=Rate(100, per=1, burst=3))
    await app.limit_key("partner", concurrency=0, queue="mail")
    [queue] = await app.queues()
    assert queue.limit == StoredLimit(50, 10_000, 3)
    [key] = await app.resources()
    assert (key.key, key.limit) == ("partner", StoredLimit(0))
    await app.limit_queue("mail")
    await app.limit_key("partner")
    [queue] = await app.queues()
    assert queue.limit is None
    assert await app.resources() == []


async def test_the_limit_of_an_unknown_queue_is_stored_with_a_word(
    app: Mita, caplog: pytest.LogCaptureFixture
) -> None:
    @app.task(queue="mail")
    async def send() -> None: ...

    await app.limit_queue("mail", concurrency=1)
    assert caplog.messages == []
    await app.limit_queue("typo", concurrency=1)
    [word] = caplog.messages
    assert word == (
        "the limit of queue 'typo' is stored, but it has had no job so far; there are: mail"
    )
    assert [view.name for view in await app.queues() if view.limit] == ["mail", "typo"]
    await app.limit_queue("typo", concurrency=2)
    await app.limit_queue("other")
    assert len(caplog.messages) == 1


def test_limits_in_sync_code() -> None:
    app = Mita("memory://")
    try:
        app.limit_queue_sync("mail", concurrency=1)
        app.limit_key_sync("k", rate=Rate(1), queue="mail")
        assert [view.limit for view in app.queues_sync()] == [StoredLimit(1)]
    finally:
        app.close_sync()


async def test_a_repeat_keeps_the_limits_of_its_call(app: Mita) -> None:
    @app.task(resource=["a", "b"], rate=Rate(2), fair="{x}")
    async def work(x: int) -> None: ...

    await app.repeat("r", work.call(1), Every(60))
    job = await stored(app, (await app.repeats.trigger("r")).id)
    assert job.gates == (Gate("b", 1), Gate("task:work", None, 500_000, 1))
    assert job.fair == "1"
    debounced = work.options(unique="u", debounce=1)
    with pytest.raises(UsageError, match="a repeat decides when"):
        await app.repeat("d", debounced.call(1), Every(60))


def some(a: int) -> None: ...


WRONG: dict[str, tuple[Callable[[Any], Any], list[str]]] = {
    "a rate of 0": (lambda app: Rate(0), ["Rate limit 0", "1 or more"]),
    "a rate below 0": (lambda app: Rate(-1), ["Rate limit -1"]),
    "half a start": (lambda app: Rate(0.5), ["Rate limit 0.5", "whole number"]),  # type: ignore[arg-type]
    "no period": (lambda app: Rate(1, per=0), ["per=0", "more than 0"]),
    "a period that is none": (lambda app: Rate(1, per="s"), ["per='s'"]),  # type: ignore[arg-type]
    "an endless period": (lambda app: Rate(1, per=1e9), ["a year"]),
    "a rate too fast": (lambda app: Rate(10**9, per=1), ["microsecond"]),
    "no burst": (lambda app: Rate(1, burst=0), ["Rate burst 0"]),
    "a key with no place": (lambda app: Key("a", limit=0), ["Key limit 0"]),
    "no rate": (lambda app: app.task(rate="10/s")(some), ["rate='10/s'", "Rate(10, per=1)"]),
    "five keys": (lambda app: app.task(resource=list("abcde"))(some), ["5 keys", "at most 4"]),
    "a key twice": (lambda app: app.task(resource=["a", "a"])(some), ["'a' twice"]),
    "no key at all": (lambda app: app.task(resource=[])(some), ["resource=[]"]),
    "a key that is none": (lambda app: app.task(resource=[3])(some), ["3 is no key", "Key('gpu'"]),
    "an empty key": (lambda app: app.task(resource=[Key("")])(some), ["''", "printable"]),
    "a rate template": (
        lambda app: app.task(rate=Rate(1, key="host:{host}"))(some),
        ["rate='host:{host}'", "'host'", "(a)"],
    ),
    "a key template": (
        lambda app: app.task(resource=["x", Key("y:{b}")])(some),
        ["resource='y:{b}'", "'b'"],
    ),
    "a fair template": (lambda app: app.task(fair="{tenant}")(some), ["fair=", "'tenant'"]),
    "a secret group": (
        lambda app: app.task(fair="{a}", secret=["a"])(some),
        ["fair=", "secret"],
    ),
    "a weight alone": (lambda app: app.task(fair_weight=2)(some), ["fair_weight", "fair="]),
    "a negative weight": (
        lambda app: app.task(fair="{a}", fair_weight=-1)(some),
        ["fair_weight=-1", "0.001"],
    ),
    "debounce without a key": (lambda app: app.task(debounce=1)(some), ["debounce", "unique="]),
    "throttle without a key": (lambda app: app.task(throttle=1)(some), ["throttle", "unique="]),
    "a longest wait too short": (
        lambda app: app.task(unique="u", debounce=5, debounce_max=1)(some),
        ["debounce_max=1 is less than debounce=5", "at least 5"],
    ),
    "a longest wait alone": (
        lambda app: app.task(unique="u", debounce_max=1)(some),
        ["debounce_max", "debounce="],
    ),
    "no debounce": (lambda app: app.task(unique="u", debounce=0)(some), ["debounce=0"]),
    "both": (
        lambda app: app.task(unique="u", debounce=1, throttle=1)(some),
        ["throttle", "debounce", "one of them"],
    ),
    "throttle and unique_for": (
        lambda app: app.task(unique="u", unique_for=1, throttle=1)(some),
        ["throttle", "unique_for"],
    ),
    "a debounced job with a time": (
        lambda app: app.task(unique="u", debounce=1)(some).after(5),
        ["debounce", ".after("],
    ),
}


@pytest.mark.parametrize("what", WRONG)
def test_wrong_limits_are_refused(app: Mita, what: str) -> None:
    act, says = WRONG[what]
    with pytest.raises(UsageError) as caught:
        act(app)
    for part in says:
        assert part in str(caught.value)


@pytest.mark.parametrize(
    ("given", "says"),
    [
        ({"concurrency": -1}, "concurrency=-1"),
        ({"concurrency": True}, "concurrency=True"),
        ({"concurrency": 2**31}, "from 0 to 2,147,483,647"),
        ({"rate": "5/s"}, "Rate(100, per=1)"),
        ({"rate": Rate(1, key="k")}, "without a key"),
    ],
)
async def test_wrong_stored_limits_are_refused(app: Mita, given: dict[str, Any], says: str) -> None:
    with pytest.raises(UsageError) as caught:
        await app.limit_queue("mail", **given)
    assert says in str(caught.value)
    assert await app.queues() == []


def test_ageing_is_checked() -> None:
    with pytest.raises(UsageError, match="ageing=0"):
        Mita("memory://", ageing=0)
