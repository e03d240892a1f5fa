"""Wrong uses of a lab: each is refused, and the message says what to write instead."""

import asyncio
import time

import pytest

from mita import Mita, UsageError
from mita.testing import lab


@pytest.fixture
def app() -> Mita:
    return Mita("sqlite:///never-opened.db")


async def test_a_forgotten_await(app: Mita) -> None:
    with pytest.raises(UsageError, match="was called without await, so it did nothing"):  # noqa: PT012
        async with lab(app) as it:
            await it.drain()
            it.drain()  # type: ignore[unused-coroutine]


async def test_a_forgotten_await_does_not_hide_another_error(app: Mita) -> None:
    with pytest.raises(ZeroDivisionError):  # noqa: PT012
        async with lab(app) as it:
            it.advance(5)  # type: ignore[unused-coroutine]
            raise ZeroDivisionError


def test_async_methods_in_a_sync_test(app: Mita) -> None:
    with lab(app) as it:
        with pytest.raises(UsageError, match=r"this is sync code: call drain_sync\(\)"):
            it.drain()  # type: ignore[unused-coroutine]
        with pytest.raises(UsageError, match=r"call advance_sync\(\)"):
            it.advance(60)  # type: ignore[unused-coroutine]


async def test_sync_methods_in_an_async_test(app: Mita) -> None:
    with pytest.raises(UsageError, match="write `async with lab"), lab(app):
        pass
    async with lab(app) as it:
        with pytest.raises(UsageError, match="await the method without _sync"):
            it.drain_sync()


async def test_a_lab_inside_a_lab(app: Mita) -> None:
    async with lab(app):
        with pytest.raises(UsageError, match="in a lab already: use that one"):
            async with lab(app):
                pass
    async with lab(app) as it:
        assert await it.drain() == 0


async def test_before_and_after_the_block(app: Mita) -> None:
    it = lab(app)
    with pytest.raises(UsageError, match="enter the lab first"):
        await it.drain()
    async with it:
        pass
    with pytest.raises(UsageError, match="this lab has ended"):
        await it.drain()
    with pytest.raises(UsageError, match="this lab has ended"):
        it.enqueued()
    with pytest.raises(UsageError, match="a lab is entered once"):
        async with it:
            pass


def test_times_that_make_no_sense(app: Mita) -> None:
    with lab(app) as it:
        with pytest.raises(UsageError, match="negative"):
            it.advance_sync(-1)
        with pytest.raises(UsageError, match="never goes back"):
            it.advance_sync(to=it.now.replace(year=2029))
        with pytest.raises(UsageError, match="either advance"):
            it.advance_sync()
        with pytest.raises(UsageError, match="either advance"):
            it.advance_sync(5, to=it.now)
        with pytest.raises(UsageError, match="no time zone"):
            it.advance_sync(to=it.now.replace(tzinfo=None))


@pytest.mark.parametrize("is_async", [True, False])
def test_a_handler_that_never_ends(app: Mita, is_async: bool) -> None:
    @app.task(name="waits")
    async def waits() -> None:
        await asyncio.Event().wait()

    @app.task(name="spins")
    def spins() -> None:
        while True:
            time.sleep(0.001)

    name = "waits" if is_async else "spins"
    with lab(app, time_limit=0.05) as it:
        app.enqueue_sync(app.tasks[name].call())
        with pytest.raises(UsageError, match=f"{name}.*has not ended after 0.05 s of real time"):
            it.drain_sync()


async def test_a_sync_handler_that_never_ends_in_an_async_test(app: Mita) -> None:
    @app.task(name="spins")
    def spins() -> None:
        while True:
            time.sleep(0.001)

    async with lab(app, time_limit=0.05) as it:
        await spins.enqueue()
        with pytest.raises(UsageError, match=r"spins.*has not ended after 0.05 s"):
            await it.drain()


async def test_a_handler_that_waits_for_a_job_of_the_lab_is_ended(app: Mita) -> None:
    @app.task(name="child")
    async def child() -> None: ...

    @app.task(name="parent")
    async def parent() -> None:
        await (await child.enqueue()).result()

    async with lab(app, time_limit=0.05) as it:
        await parent.enqueue()
        with pytest.raises(UsageError, match="Does it wait for a job"):
            await it.drain()


async def test_the_old_names_say_the_new_ones(app: Mita) -> None:
    async with lab(app) as it:
        with pytest.raises(AttributeError, match=r"it is drain\(\) now"):
            it.run_due  # type: ignore[attr-defined]  # noqa: B018
