"""`enqueued` and `assert_enqueued`: what matches, and what a failure says."""

from datetime import UTC, date, datetime, timedelta
from pathlib import Path
from typing import Any
from unittest.mock import ANY

import pytest
from pydantic import BaseModel

from mita import Every, Keyring, Mita, UsageError
from mita.testing import lab


class Broken:
    def __repr__(self) -> str:
        raise ValueError


class Order(BaseModel):
    id: int
    lines: list[str] = []


@pytest.fixture
def app() -> Mita:
    app = Mita("sqlite:///never-opened.db")

    @app.task(name="send", queue="mails")
    async def send(to: str, subject: str = "hello", *, urgent: bool = False) -> None: ...

    @app.task(name="ship")
    async def ship(order: Order, on: date | None = None, label: Path | None = None) -> None: ...

    @app.task(name="count_up")
    async def count_up(count: int, *, queue: str = "") -> None: ...

    @app.task(name="log_in", secret=True)
    async def log_in(password: str) -> None: ...

    return app


def test_arguments_that_are_not_named_may_have_any_value(app: Mita) -> None:
    send: Any = app.tasks["send"]
    with lab(app) as it:
        send.enqueue_sync("Ada", "welcome")
        send.enqueue_sync("Bo", urgent=True)
        assert len(it.assert_enqueued(send)) == 2
        [ada] = it.assert_enqueued(send, "Ada")
        assert ada.arguments == {"to": "Ada", "subject": "welcome", "urgent": False}
        it.assert_enqueued(send, subject="hello", urgent=True, count=1)  # also by its default
        it.assert_enqueued(send, ANY, "welcome", urgent=ANY, count=1)
        it.assert_enqueued(send, "Cleo", count=0)
        assert [job.arguments["to"] for job in it.enqueued(send)] == ["Ada", "Bo"]
        assert [job.task for job in it.enqueued()] == ["send", "send"]


def test_values_are_compared_as_the_handler_gets_them(app: Mita) -> None:
    ship: Any = app.tasks["ship"]
    with lab(app) as it:
        ship.enqueue_sync(Order(id=1, lines=["tea"]), date(2030, 1, 2), Path("a/b.pdf"))
        it.assert_enqueued(ship, Order(id=1, lines=["tea"]), on=date(2030, 1, 2))
        it.assert_enqueued(ship, label=Path("a/b.pdf"))
        it.assert_enqueued(ship, Order(id=2), count=0)


def test_secret_arguments_can_be_compared(app: Mita) -> None:
    log_in: Any = app.tasks["log_in"]
    with lab(app) as it:
        log_in.enqueue_sync("hunter2")
        it.assert_enqueued(log_in, "hunter2", count=1)


def test_queue_delay_due_time_and_state(app: Mita) -> None:
    send: Any = app.tasks["send"]
    with lab(app, start=datetime(2030, 1, 1, tzinfo=UTC)) as it:
        send.after(timedelta(minutes=5)).enqueue_sync("Ada")
        send.options(queue="later").enqueue_sync("Bo")
        it.assert_enqueued(send, after=300, queue="mails", state="scheduled", count=1)
        it.assert_enqueued(send, at=datetime(2030, 1, 1, 0, 5, tzinfo=UTC), count=1)
        it.assert_enqueued(send, queue="later", after=0, state="ready", count=1)
        it.advance_sync(300)
        it.assert_enqueued(send, state="succeeded", count=2)
        it.assert_enqueued(send, after=timedelta(minutes=5), count=1)  # also when it has run


def test_jobs_of_handlers_repeats_and_flows_are_there_and_twins_are_not(app: Mita) -> None:
    send: Any = app.tasks["send"]

    @app.task(name="outer")
    def outer() -> None:
        send.enqueue_sync("from a handler")

    with lab(app) as it:
        outer.enqueue_sync()
        app.repeat_sync("hourly", send.call("from a repeat"), Every(3600))
        app.group([send.call("from a flow"), send.call("from a flow")]).enqueue_sync()
        for _ in range(2):
            send.options(unique="one").enqueue_sync("unique")
        it.advance_sync(3600)
        found = [job.arguments["to"] for job in it.enqueued(send)]
        assert sorted(found) == sorted(
            ["from a handler", "from a repeat", "from a flow", "from a flow", "unique"]
        )
        assert {job.task for job in it.enqueued()} == {"outer", "send"}


def test_encrypted_arguments_can_be_compared() -> None:
    app = Mita("memory://", keyring=Keyring(current="k1", keys={"k1": Keyring.new_key()}))

    @app.task
    def send(to: str) -> str:
        return to

    with lab(app) as it:
        job = send.enqueue_sync("Ada")
        it.assert_enqueued(send, "Ada", count=1)
        assert it.drain_sync() == 1
        assert job.result_sync() == "Ada"


def test_tags(app: Mita) -> None:
    send: Any = app.tasks["send"]
    with lab(app) as it:
        send.options(tags=["customer:42", "trial"]).enqueue_sync("Ada")
        it.assert_enqueued(send, tags=["trial"], count=1)
        it.assert_enqueued(send, tags=["trial", "customer:7"], count=0)
        assert "tags: expected ('eu',), was ('customer:42', 'trial')" in message(
            it, send, tags=["eu"]
        )
        with pytest.raises(UsageError, match="give a list"):
            it.assert_enqueued(send, tags="trial")


def test_more_jobs_than_a_page_has(app: Mita) -> None:
    send: Any = app.tasks["send"]
    with lab(app) as it:
        app.enqueue_many_sync(send.call(f"{n:04}") for n in range(1201))
        assert [job.arguments["to"] for job in it.enqueued()] == [f"{n:04}" for n in range(1201)]


# ---------------------------------------------------------------- what a failure says


def message(it: Any, *args: Any, **kwargs: Any) -> str:
    with pytest.raises(AssertionError) as caught:
        it.assert_enqueued(*args, **kwargs)
    return str(caught.value)


def test_a_miss_shows_what_was_enqueued_and_what_differs(app: Mita) -> None:
    send, ship = app.tasks["send"], app.tasks["ship"]
    with lab(app) as it:
        assert message(it, send) == (
            "no job send(…) was enqueued\n\nNothing was enqueued in this lab."
        )
        ship.enqueue_sync(Order(id=1))
        assert "No job of send is among them." in message(it, send)
        send.enqueue_sync("Ada", "welcome")
        send.after(60).enqueue_sync("Bo")
        assert message(it, send, "Ada", subject="bye", queue="later") == (
            "no job send(to='Ada', subject='bye', …) with queue='later' was enqueued\n"
            "\n"
            "3 jobs were enqueued:\n"
            "  ship(order=Order(id=1, lines=[]), on=None, label=None)  queue=default  after=0   "
            "ready\n"
            "  send(to='Ada', subject='welcome', urgent=False)         queue=mails    after=0   "
            "ready\n"
            "  send(to='Bo', subject='hello', urgent=False)            queue=mails    after=60  "
            "scheduled\n"
            "\n"
            "The nearest is send(to='Ada', subject='welcome', urgent=False):\n"
            "  subject: expected 'bye', was 'welcome'\n"
            "  queue: expected 'later', was 'mails'"
        )


def test_a_wrong_count_says_both_numbers(app: Mita) -> None:
    send = app.tasks["send"]
    with lab(app) as it:
        send.enqueue_sync("Ada")
        send.enqueue_sync("Ada")
        assert message(it, send, "Ada", count=1).startswith(
            "expected 1 job send(to='Ada', …), but 2 were enqueued\n\n2 jobs were enqueued:\n"
        )
        assert message(it, send, count=0).startswith("expected 0 jobs send(…), but 2 were")


def test_values_that_look_alike_and_long_lists(app: Mita) -> None:
    send: Any = app.tasks["send"]
    with lab(app) as it:
        app.enqueue_many_sync(send.call(f"{n}", "x" * 500) for n in range(30))
        text = message(it, send, 7)
        assert "  to: expected 7, was '29'" in text
        assert "(the last 20 of them)" in text
        assert max(map(len, text.splitlines())) < 200

        class Odd(str):
            def __eq__(self, other: object) -> bool:
                return False

            def __ne__(self, other: object) -> bool:
                return True

            __hash__ = str.__hash__

        assert "expected '29', was '29' (Odd and str)" in message(it, send, Odd("29")).replace(
            "test_values_that_look_alike_and_long_lists.<locals>.", ""
        )

        assert "<Broken: its repr raised ValueError>" in message(it, send, Broken())


# ---------------------------------------------------------------- wrong uses


def other_task(name: str) -> Any:
    """A task of another app."""

    async def nothing() -> None: ...

    return Mita("memory://").task(name=name)(nothing)


def test_what_the_task_cannot_have_been_called_with(app: Mita) -> None:
    send: Any = app.tasks["send"]
    with lab(app) as it:
        with pytest.raises(UsageError, match="no parameter 'subjekt', did you mean 'subject'"):
            it.assert_enqueued(send, subjekt="hello")
        with pytest.raises(UsageError, match="did you mean 'count'"):
            it.assert_enqueued(send, cuont=1)
        with pytest.raises(UsageError, match=r"takes 3 arguments .*and 4 are to be compared"):
            it.assert_enqueued(send, 1, 2, 3, 4)
        with pytest.raises(UsageError, match="'to' is given twice"):
            it.assert_enqueued(send, "Ada", to="Ada")
        with pytest.raises(UsageError, match="is not a task"):
            it.assert_enqueued(send.call("Ada"))
        with pytest.raises(UsageError, match="is not a task"):
            it.enqueued(send.after(5))
        with pytest.raises(UsageError, match="belongs to another app"):
            it.assert_enqueued(other_task("send"))
        with pytest.raises(UsageError, match="other"):
            it.assert_enqueued(other_task("other"))


def test_a_parameter_with_the_name_of_an_option(app: Mita) -> None:
    count_up: Any = app.tasks["count_up"]
    with lab(app) as it:
        count_up.enqueue_sync(3, queue="a")
        it.assert_enqueued(count_up, 3, count=1)
        with pytest.raises(UsageError, match="count= could mean the argument or the option"):
            it.assert_enqueued(count_up, count=3)
        with pytest.raises(UsageError, match="queue= could mean"):
            it.assert_enqueued(count_up, 3, queue="a")


async def test_async_tests_do_not_await_it(app: Mita) -> None:
    send: Any = app.tasks["send"]
    async with lab(app) as it:
        await send.enqueue("Ada")
        [job] = it.assert_enqueued(send, "Ada")
        assert (job.queue, job.after, job.priority) == ("mails", timedelta(0), 5)
        await it.drain()
        it.assert_enqueued(send, "Ada", state="succeeded")
