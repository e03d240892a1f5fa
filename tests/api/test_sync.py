"""Every public async method has a `_sync` twin with the same parameters, which does the same
from sync code."""

import inspect
import os
import re
import signal
import threading
from collections.abc import Iterator
from datetime import timedelta
from typing import Any

import pytest

import mita
from mita import Answer, Cron, Every, Job, Mita
from mita.twins import sync_twin

# Without a twin, and why.
ALONE = {
    "Mita.open_store",  # a store belongs to the event loop that opened it
    "Events.aclose",  # `events_sync` returns a class of its own, with `close`
}


# these take async and sync functions, and their twins only sync ones
OVERLOADED = {"Job.once", "Job.step"}


def public() -> Iterator[tuple[str, type, str]]:
    for name in mita.__all__:
        cls = getattr(mita, name)
        if isinstance(cls, type):
            yield from (
                (f"{name}.{member}", cls, member)
                for member in dir(cls)
                if not member.startswith("_")
            )


def is_async(cls: type, member: str) -> bool:
    found = getattr(cls, member)
    return not member.endswith("_sync") and inspect.iscoroutinefunction(
        inspect.unwrap(found) if callable(found) else found
    )


ASYNC = sorted(
    {name: cls for name, cls, member in public() if is_async(cls, member) and name not in ALONE}
)
PAIRS = [*ASYNC, "Mita.using", "Mita.events", "Task.enqueue"]


def pair(name: str) -> tuple[Any, Any]:
    cls, _, member = name.partition(".")
    return getattr(getattr(mita, cls), member), getattr(getattr(mita, cls), f"{member}_sync", None)


@pytest.mark.parametrize("name", PAIRS)
def test_an_async_method_has_a_twin_with_the_same_parameters_and_a_docstring(name: str) -> None:
    method, twin = pair(name)
    assert twin is not None, f"{name} has no {name}_sync"
    assert not inspect.iscoroutinefunction(twin)
    ours, theirs = (
        inspect.signature(method).parameters.values(),
        inspect.signature(twin).parameters.values(),
    )
    assert [(p.name, p.kind, p.default) for p in ours] == [
        (p.name, p.kind, p.default) for p in theirs
    ]
    if name not in OVERLOADED:
        assert list(ours) == list(theirs)
    assert twin.__name__ == f"{method.__name__}_sync"
    assert re.search("not async|sync (code|function)", twin.__doc__ or "")


def test_every_twin_has_its_async_method() -> None:
    assert {
        "Mita.jobs",
        "Repeats.preview",
        "Handle.result",
        "Job.once",
        "Worker.run",
        "Scheduler.run",
    } <= set(ASYNC)
    twins = {
        (name, cls, member.removesuffix("_sync"))
        for name, cls, member in public()
        if member.endswith("_sync")
    }
    assert not {name for name, cls, member in twins if not hasattr(cls, member)}


def test_a_twin_calls_the_method_of_a_subclass() -> None:
    class Base:
        def _run_sync(self, coro: Any) -> Any:
            with pytest.raises(StopIteration) as ended:
                coro.send(None)
            return ended.value.value

        async def name(self, *, upper: bool = False) -> str:
            """The name."""
            return "BASE" if upper else "base"

        name_sync = sync_twin(name)

    class Deeper(Base):
        async def name(self, *, upper: bool = False) -> str:
            return f"deeper {await super().name(upper=upper)}"

    assert Base().name_sync(upper=True) == "BASE"
    assert Deeper().name_sync() == "deeper base"
    assert Base.name_sync.__doc__ == "`name`, from code that is not async. The name."


# ---------------------------------------------------------------- what they do


@pytest.fixture
def plain(url: str) -> Iterator[Mita]:
    """An app that only sync code uses."""
    app = Mita(url)

    @app.task(queue="mail", resource="to:{to}")
    def send(job: Job, to: str = "ada") -> str:
        job.progress_sync(1, 2, "half")
        return job.once_sync("sent", lambda: f"sent to {to}")

    yield app
    app.close_sync()


def test_sync_code_can_read_jobs(plain: Mita) -> None:
    send = plain.tasks["send"]
    [first, second] = plain.enqueue_many_sync([send.call("ada"), send.after(60).call("bo")])
    third = plain.enqueue_sync(send.call("cy"))
    assert {job.id for job in plain.jobs_sync(queue="mail", limit=10).jobs} == {
        first.id,
        second.id,
        third.id,
    }
    assert plain.counts_sync()["mail"]["ready"] == 2
    assert [view.name for view in plain.queues_sync()] == ["mail"]
    assert plain.workers_sync() == []
    assert plain.resources_sync(queue="mail") == []
    assert plain.explain_sync(second.id)[0].text
    record = plain.get_sync(first.id)
    assert record == first.get_sync()


def test_sync_code_can_change_jobs(plain: Mita) -> None:
    send = plain.tasks["send"]
    job = send.after(60).enqueue_sync("ada")
    assert plain.prioritise_sync(job.id, 9) is Answer.DONE
    assert plain.reschedule_sync(job.id, after=30, reason="sooner") is Answer.DONE
    assert plain.cancel_sync(job.id) is Answer.DONE
    assert plain.retry_sync(job.id) is Answer.DONE
    plain.pause_sync("mail")
    assert plain.queues_sync()[0].paused
    plain.resume_sync("mail")
    assert not plain.queues_sync()[0].paused
    plain.hold_sync("to:ada", after=60)
    [held] = plain.resources_sync(key="to:ada")
    assert held.held_until
    plain.unhold_sync("to:ada")
    assert plain.resources_sync() == []


def test_sync_code_can_use_repeats(plain: Mita) -> None:
    send = plain.tasks["send"]
    assert plain.repeat_sync("k", send.call(), Every(timedelta(hours=1))).state == "active"
    assert plain.repeats.put_sync("d", send.call(), Cron("@daily")).key == "d"
    assert [repeat.key for repeat in plain.repeats.all_sync()] == ["d", "k"]
    assert plain.repeats.get_sync("nosuch") is None
    assert plain.repeats.pause_sync("k")
    assert plain.repeats.resume_sync("k")
    assert len(plain.repeats.preview_sync("k", 3)) == 3
    assert plain.repeats.trigger_sync("k").created
    assert plain.repeats.remove_sync("k")


def test_sync_code_can_run_a_worker_and_wait_for_results(plain: Mita) -> None:
    worker = plain.worker()

    @plain.task(queue="last", priority=0)
    async def last() -> None:
        worker.stop()

    job = plain.tasks["send"].enqueue_sync("ada")
    last.enqueue_sync()
    worker.run_sync()
    assert job.result_sync(10) == "sent to ada"


def test_sync_code_can_run_a_scheduler(plain: Mita) -> None:
    plain.repeat_sync("k", plain.tasks["send"].call(), Every(0.2), limit=1)
    scheduler = plain.scheduler(poll=0.05)
    # Ctrl-C, after the repeat has fired
    listener = plain.listen(lambda _: os.kill(os.getpid(), signal.SIGINT), ["enqueued"])
    scheduler.run_sync()
    listener.stop()
    assert plain.counts_sync()["mail"]["ready"] == 1


def test_sync_code_can_read_events(plain: Mita) -> None:
    send = plain.tasks["send"]
    with plain.events_sync("mail", ["enqueued"]) as events:
        jobs = [send.enqueue_sync("ada") for _ in range(3)]
        seen = []
        for event in events:
            seen.append(event.id)
            if len(seen) == 3:
                break
    assert seen == [job.id for job in jobs]
    assert events.missed == 0


def test_closed_events_end_the_loop_that_reads_them(plain: Mita) -> None:
    events = plain.events_sync()
    began = threading.Event()
    seen: list[str] = []

    def read() -> None:
        with events:
            began.set()
            seen.extend(event.kind for event in events)

    reader = threading.Thread(target=read)
    reader.start()
    assert began.wait(30)
    events.close()
    reader.join(30)
    assert not reader.is_alive()


def test_sync_code_can_use_another_store_in_a_block(plain: Mita) -> None:
    send = plain.tasks["send"]
    send.enqueue_sync("ada")
    with plain.using_sync("memory://") as other:
        assert other.counts_sync() == {}
        send.enqueue_sync("bo")
        send.enqueue_sync("cy")
        assert other.counts_sync()["mail"]["ready"] == 2
    assert plain.counts_sync()["mail"]["ready"] == 1
