"""`Annotated[T, Depends(fn)]`: which values a handler gets, and what is refused."""

import asyncio
import threading
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from typing import Annotated, Any

import pytest

from mita import Depends, Job, JobFailed, Mita, Retry, UsageError
from mita.testing import lab
from tests.engine.conftest import working

from .conftest import untyped

ONE_TRY = Retry(max_retries=0)


def plain() -> str:
    return "plain"


async def awaited() -> str:
    return "awaited"


def generated() -> Iterator[str]:
    yield "generated"


async def generated_async() -> AsyncIterator[str]:
    yield "generated async"


@contextmanager
def managed() -> Iterator[str]:
    yield "managed"


@asynccontextmanager
async def managed_async() -> AsyncIterator[str]:
    yield "managed async"


class Settings:
    def __init__(self) -> None:
        self.name = "settings"


PROVIDERS = [plain, awaited, generated, generated_async, managed, managed_async]
EXPECTED = ["plain", "awaited", "generated", "generated async", "managed", "managed async"]


async def result(app: Mita, task: Any, *args: Any) -> Any:
    async with working(app):
        return await (await task.enqueue(*args)).result(10)


@pytest.mark.parametrize("scope", ["run", "worker"])
async def test_an_async_handler_gets_the_value_of_each_kind_of_provider(
    app: Mita, scope: Any
) -> None:
    a, b, c, d, e, f = (Depends(fn, scope=scope) for fn in PROVIDERS)

    @app.task
    async def use(
        x: Annotated[str, a],
        y: Annotated[str, b],
        number: int,
        z: Annotated[str, c],
        u: Annotated[str, d],
        *,
        v: Annotated[str, e],
        w: Annotated[str, f],
        word: str = "w",
    ) -> list[Any]:
        return [number, word, x, y, z, u, v, w]

    assert await result(app, use, 3) == [3, "w", *EXPECTED]


@pytest.mark.parametrize("scope", ["run", "worker"])
async def test_a_sync_handler_gets_the_value_of_each_kind_of_provider(
    app: Mita, scope: Any
) -> None:
    a, b, c, d, e, f = (Depends(fn, scope=scope) for fn in PROVIDERS)

    @app.task
    def use(
        job: Job,
        x: Annotated[str, a],
        y: Annotated[str, b],
        number: int,
        z: Annotated[str, c],
        u: Annotated[str, d],
        v: Annotated[str, e],
        w: Annotated[str, f],
    ) -> list[Any]:
        return [number, job.attempt, x, y, z, u, v, w]

    assert await result(app, use, 3) == [3, 1, *EXPECTED]


async def test_a_class_can_be_a_provider_and_a_default_can_name_it(app: Mita) -> None:
    @app.task
    async def use(word: str, settings: Settings = Depends(Settings)) -> str:  # noqa: B008
        return settings.name + word

    assert await result(app, use, "!") == "settings!"


async def test_a_class_derived_from_job_has_values_as_attributes(app: Mita) -> None:
    class Mine(Job):
        name: Annotated[str, Depends(awaited)]
        other: Annotated[str, Depends(generated)]

    @app.task
    async def use(job: Mine, number: int) -> list[Any]:
        return [job.name, job.other, number, job.task]

    @app.task
    def use_sync(job: Mine, number: int) -> list[Any]:
        return [job.name, job.other, number, job.task]

    assert await result(app, use, 1) == ["awaited", "generated", 1, "use"]
    assert await result(app, use_sync, 2) == ["awaited", "generated", 2, "use_sync"]


async def test_providers_need_others_and_the_job_and_are_called_once_per_run(
    app: Mita, log: list[str]
) -> None:
    def connection(job: Job) -> Iterator[str]:
        log.append(f"connect {job.task}")
        yield "connection"
        log.append("disconnect")

    async def session(connection: Annotated[str, Depends(connection)]) -> AsyncIterator[str]:
        log.append("begin")
        yield f"session on {connection}"
        log.append("end")

    @app.task
    async def use(
        first: Annotated[str, Depends(session)], second: Annotated[str, Depends(connection)]
    ) -> list[str]:
        log.append("run")
        return [first, second]

    assert await result(app, use) == ["session on connection", "connection"]
    assert log == ["connect use", "begin", "run", "end", "disconnect"]


async def test_a_sync_provider_runs_on_the_thread_of_a_sync_handler(app: Mita) -> None:
    @app.task
    def use(thread: Annotated[str, Depends(lambda: threading.current_thread().name)]) -> bool:
        return thread == threading.current_thread().name

    assert await result(app, use)


async def test_an_async_provider_ends_in_the_task_in_which_it_began(app: Mita) -> None:
    tasks = []

    async def limited() -> AsyncIterator[None]:
        tasks.append(asyncio.current_task())
        async with asyncio.timeout(60), asyncio.TaskGroup():
            yield
        tasks.append(asyncio.current_task())

    @app.task
    async def use(limits: Annotated[None, Depends(limited)]) -> None: ...

    @app.task
    def use_sync(limits: Annotated[None, Depends(limited)]) -> None: ...

    @app.task
    def share(limits: Annotated[None, Depends(limited, scope="worker")]) -> None: ...

    for task in (use, use_sync, share):
        await result(app, task)
    begun, ended = tasks[::2], tasks[1::2]
    assert begun == ended
    assert len(set(begun)) == 3


async def test_runs_share_a_value_of_the_worker_which_is_made_once(
    app: Mita, log: list[str]
) -> None:
    ready = asyncio.Event()

    async def pool() -> AsyncIterator[object]:
        log.append("open")
        await ready.wait()
        yield object()
        log.append("close")

    def through(pool: Annotated[object, Depends(pool, scope="worker")]) -> int:
        return id(pool)

    @app.task
    async def use(pool: Annotated[int, Depends(through)]) -> int:
        return pool

    @app.task
    def use_sync(pool: Annotated[int, Depends(through)]) -> int:
        return pool

    async with working(app):
        jobs = [await untyped(task).enqueue() for task in (use, use_sync) * 5]
        ready.set()
        assert len({await job.result(10) for job in jobs}) == 1
        assert log == ["open"]
    assert log == ["open", "close"]


async def test_a_shared_value_that_could_not_be_made_is_tried_again(app: Mita) -> None:
    tries = []

    def pool() -> str:
        tries.append(1)
        if len(tries) == 1:
            raise SystemExit("not yet")
        return "pool"

    @app.task(retry=Retry(waits=(0,)))
    async def use(pool: Annotated[str, Depends(pool, scope="worker")]) -> str:
        return pool

    assert await result(app, use) == "pool"
    assert len(tries) == 2


async def test_a_shared_value_is_made_although_the_run_that_wants_it_is_stopped(app: Mita) -> None:
    begun, ready, tries = asyncio.Event(), asyncio.Event(), []

    async def pool() -> str:
        tries.append(1)
        begun.set()
        await ready.wait()
        return "pool"

    @app.task(retry=Retry(max_retries=0))
    async def use(pool: Annotated[str, Depends(pool, scope="worker")]) -> str:
        return pool

    async with working(app):
        job = await untyped(use).options(timeout=0.01).enqueue()
        await begun.wait()
        with pytest.raises(JobFailed, match="timeout"):
            await job.result(10)
        ready.set()
        assert await (await untyped(use).enqueue()).result(10) == "pool"
    assert tries == [1]


async def broken() -> str:
    raise OSError("no route")


def broken_clean_up() -> Iterator[None]:
    yield
    raise OSError("no commit")


def needs_broken(inner: Annotated[str, Depends(broken)]) -> str:
    return inner


def without_yield() -> Iterator[None]:
    yield from ()


def yields_twice() -> Iterator[None]:
    yield
    yield


@pytest.mark.parametrize("kind", ["async", "sync"])
@pytest.mark.parametrize(
    ("provider", "error", "where"),
    [
        (broken, "OSError: no route", "provider tests.fitting.test_depends.broken, for 'x'"),
        (needs_broken, "OSError: no route", "broken, for 'inner' of provider tests.fitting."),
        (broken_clean_up, "OSError: no commit", "the clean-up of provider tests.fitting."),
        (without_yield, "ended without a yield", "without_yield, for 'x' of the task"),
        (yields_twice, "yields twice", "the clean-up of provider tests.fitting."),
    ],
)
async def test_a_failing_provider_is_the_jobs_failure_and_the_error_says_so(
    app: Mita, kind: str, provider: Callable[..., Any], error: str, where: str
) -> None:
    if kind == "async":

        @app.task(retry=ONE_TRY)
        async def use(x: Annotated[Any, Depends(provider)]) -> None: ...

    else:

        @app.task(retry=ONE_TRY)
        def use(x: Annotated[Any, Depends(provider)]) -> None: ...

    with pytest.raises(JobFailed) as failed:
        await result(app, use)
    first = str(failed.value).splitlines()[0]
    assert error in first
    assert where in first.partition("(raised by ")[2]


async def test_a_provider_of_the_worker_that_fails_is_named(app: Mita) -> None:
    @app.task(retry=ONE_TRY)
    def use(x: Annotated[Any, Depends(broken, scope="worker")]) -> None: ...

    with pytest.raises(JobFailed, match=r"raised by provider .*broken, for 'x' of the task"):
        await result(app, use)


async def test_a_provider_can_say_that_the_error_is_final(app: Mita) -> None:
    calls = []

    def refuse() -> None:
        calls.append(1)
        raise ValueError("never")

    @app.task(final=ValueError)
    async def use(x: Annotated[None, Depends(refuse)]) -> None: ...

    with pytest.raises(JobFailed):
        await result(app, use)
    assert len(calls) == 1


async def test_an_error_that_a_provider_catches_still_fails_the_job(
    app: Mita, log: list[str]
) -> None:
    def session() -> Iterator[None]:
        try:
            yield
        except ValueError:
            log.append("roll back")

    @app.task(retry=ONE_TRY)
    async def use(x: Annotated[None, Depends(session)]) -> None:
        raise ValueError("the handler's")

    with pytest.raises(JobFailed, match="the handler's"):
        await result(app, use)
    assert log == ["roll back"]


async def test_callers_do_not_pass_what_the_worker_fills_in(app: Mita) -> None:
    @app.task(resource="order:{number}")
    async def use(number: int, x: Annotated[str, Depends(plain)]) -> None: ...

    assert use.arguments.parameters == ("number",)
    for wrong in ({"x": "mine"}, {"number": 1, "x": "mine"}):
        with pytest.raises(UsageError, match="'x' is filled in by the worker"):
            untyped(use).call(**wrong)


async def test_the_function_itself_can_be_called_with_everything(app: Mita) -> None:
    @app.task
    async def use(x: Annotated[str, Depends(plain)], number: int) -> str:
        return x * number

    assert await use("ab", 2) == "abab"


def ring_two(x: "Annotated[str, Depends(ring_three)]") -> None: ...
def ring_three(x: "Annotated[str, Depends(ring_two)]") -> None: ...


def test_a_ring_of_providers_is_refused() -> None:
    with pytest.raises(UsageError, match=r"circle: .*ring_two → .*ring_three → .*ring_two"):

        @Mita("memory://").task
        def use(x: Annotated[Any, Depends(ring_two)]) -> None: ...


def needs_url(url: str) -> None: ...
def by_position(job: Job, /) -> None: ...


@pytest.mark.parametrize(
    ("annotation", "text"),
    [
        (Annotated[str, Depends(needs_url)], r"needs_url takes 'url', which nothing provides"),
        (Annotated[str, Depends(by_position)], "takes 'job' only by position"),
        (Annotated[str, Depends(plain), Depends(awaited)], "names two providers"),
        (Annotated[str, Depends(plain)] | None, "Annotated outermost"),
        ("Annotated[str, Depends(nowhere)]", "cannot be resolved"),
    ],
)
def test_what_cannot_be_provided_is_refused_when_the_task_is_declared(
    annotation: Any, text: str
) -> None:
    def use(x: Any) -> None: ...

    use.__annotations__["x"] = annotation
    with pytest.raises(UsageError, match=text):
        Mita("memory://").task(use)


def test_a_provider_is_a_function_and_its_scope_is_known() -> None:
    with pytest.raises(UsageError, match="without calling it"):
        Depends(3)  # type: ignore[arg-type]
    with pytest.raises(UsageError, match="use 'run'"):
        Depends(plain, scope="request")  # type: ignore[arg-type]


def test_the_worker_makes_the_job() -> None:
    class Mine(Job):
        def __init__(self) -> None: ...

    with pytest.raises(UsageError, match="has an __init__ of its own"):

        @Mita("memory://").task
        def use(job: Mine) -> None: ...


def of_job(job: Job) -> str:
    return job.id


def of_run(x: Annotated[str, Depends(plain)]) -> str:
    return x


@pytest.mark.parametrize(
    ("provider", "text"),
    [(of_job, "cannot take the Job"), (of_run, "is made for one run by .*plain")],
)
def test_a_shared_value_cannot_need_one_of_a_run(provider: Callable[..., Any], text: str) -> None:
    app = Mita("memory://")

    @app.task
    def use(x: Annotated[str, Depends(provider, scope="worker")]) -> None: ...

    with pytest.raises(UsageError, match=text):
        app.worker()


async def test_a_test_replaces_what_providers_make(app: Mita) -> None:
    def real() -> str:
        raise AssertionError("the test must not connect")

    def session(connection: Annotated[str, Depends(real)]) -> str:
        return f"session on {connection}"

    @app.task
    async def use(x: Annotated[str, Depends(session)]) -> str:
        return x

    @app.task
    def use_sync(x: Annotated[str, Depends(real, scope="worker")]) -> str:
        return x

    async with lab(app) as it:
        it.override(real, "a fake")
        first, second = await untyped(use).enqueue(), await untyped(use_sync).enqueue()
        assert await it.drain() == 2
        assert await first.result() == "session on a fake"
        assert await second.result() == "a fake"
    async with lab(app) as it:  # the next lab knows nothing of it
        job = await untyped(use).options(retry=ONE_TRY).enqueue()
        await it.drain(raises=False)
        with pytest.raises(JobFailed, match="must not connect"):
            await job.result()
