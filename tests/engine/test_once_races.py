"""Races between the runs that ask for a shared once value, and between a run and the thread that
extends its lock. Each test holds a call to the store back until the race has happened."""

import asyncio
import threading
from collections.abc import Callable
from typing import Any

import pytest

from mita import Job, Mita, Retry
from mita.engine.worker import Worker
from tests.waiting import until

from .conftest import until_state, working

NO_RETRY = Retry(max_retries=0)
LOCK = "once:token"


async def test_a_lock_that_is_released_while_it_is_being_extended_stays_free(
    app: Mita, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The lease keeper has read which lock to extend. The function fails, and its run releases the
    lock. To extend it now is to take it again, for a run that is over."""
    extending, released = threading.Event(), threading.Event()
    tries: list[str] = []
    store = type(await app._store())
    lock, unlock = store.lock, store.unlock

    async def slow_lock(self: Any, name: str, holder: str, keep: int) -> bool:
        if name == LOCK and _on_keeper_thread() and not extending.is_set():
            extending.set()
            await _set(released)
        return bool(await lock(self, name, holder, keep))

    async def noted_unlock(self: Any, name: str, holder: str) -> None:
        await unlock(self, name, holder)
        if name == LOCK:
            released.set()

    monkeypatch.setattr(store, "lock", slow_lock)
    monkeypatch.setattr(store, "unlock", noted_unlock)

    @app.task(retry=NO_RETRY)
    async def fetch(job: Job) -> str:
        async def token() -> str:
            tries.append(job.id)
            if len(tries) == 1:
                await _set(extending)
                raise RuntimeError("the first one fails")
            return "token"

        return await job.once("token", token, scope="global")

    async with working(app, lease=60) as worker:
        first = await fetch.enqueue()
        await until(lambda: tries)
        await _beat(worker, extending.is_set)
        await until_state(app, first.id, "failed")
        second = await fetch.enqueue()
        assert await second.result(timeout=30) == "token"
    assert tries == [first.id, second.id]


@pytest.mark.parametrize("cancelled_in", ["lock", "load_once", "unlock"])
async def test_a_run_that_is_cancelled_in_a_call_to_the_store_leaves_no_lock(
    app: Mita, monkeypatch: pytest.MonkeyPatch, cancelled_in: str
) -> None:
    """The store has given the lock, but the run is cancelled before it has the answer, or before
    the store has heard of the release."""
    store = type(await app._store())
    original = getattr(store, cancelled_in)
    calls: list[object] = []
    is_late, go = asyncio.Event(), asyncio.Event()

    async def late(self: Any, *args: Any) -> Any:
        if _on_keeper_thread():  # which has an event loop of its own
            return await original(self, *args)
        calls.append(args)
        if cancelled_in == "unlock":
            is_late.set()
            await go.wait()
        answer = await original(self, *args)
        # a run asks for the value once before it has the lock
        if len(calls) == (2 if cancelled_in == "load_once" else 1):
            is_late.set()
            await go.wait()
        return answer

    @app.task(retry=NO_RETRY)
    async def fetch(job: Job) -> str:
        if job.id == first.id:
            with monkeypatch.context() as patched:
                patched.setattr(store, cancelled_in, late)
                return await job.once("token", _fails, scope="global")
        return await job.once("token", lambda: "token", scope="global")

    first = await fetch.enqueue()
    async with working(app, lease=60):
        await is_late.wait()
        await app.cancel(first.id)
        await until_state(app, first.id, "cancelled")
        go.set()
        second = await fetch.enqueue()
        assert await second.result(timeout=30) == "token"


def _fails() -> str:
    raise RuntimeError("the first one fails")


def _on_keeper_thread() -> bool:
    return threading.current_thread().name == "mita-keeper"


async def _set(event: threading.Event) -> None:
    """Wait for an event that another thread sets."""
    await until(event.is_set)


async def _beat(worker: Worker, met: Callable[[], bool]) -> None:
    """Let the lease keeper send heartbeats until `met`."""

    async def beaten() -> bool:
        worker._lease_keeper.beat_now()
        return met()

    await until(beaten)
