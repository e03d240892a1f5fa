"""Wrong input is refused at the call; the error names it and the remedy, and nothing is stored."""

import asyncio
import sys
from collections.abc import Callable
from datetime import datetime, timedelta
from typing import Any

import pytest

from mita import All, Cron, Every, Mita, Reschedule, Retry, Unavailable, UsageError
from mita.model.job import PRIORITIES
from mita.settings import StoreURL
from mita.store_pool import StorePool

from .conftest import total

NAIVE = datetime(2030, 1, 1)  # noqa: DTZ001


@pytest.fixture
async def any(app: Mita) -> Any:
    """A task without types, so that it can be called wrongly."""

    @app.task
    async def send(to: str, times: int = 1) -> None: ...

    return send


def chosen(**choices: Any) -> Callable[[Any], Any]:
    """An enqueue with these options."""
    return lambda task: task.options(**choices).enqueue("a")


WRONG_LENGTHS: tuple[tuple[Any, list[str]], ...] = (
    (0, ["more than 0 seconds", "None"]),
    (-5, ["more than 0 seconds", "None"]),
    (timedelta(seconds=-5), ["more than 0 seconds"]),
    (True, ["seconds or a timedelta"]),
    ("soon", ["seconds or a timedelta"]),
    (float("nan"), ["seconds or a timedelta"]),
    (float("inf"), ["hundred years"]),
)
WRONG: dict[str, tuple[Callable[[Any], Any], list[str]]] = {
    "naive moment": (
        lambda t: t.at(NAIVE).enqueue("a"),
        ["datetime(2030, 1, 1", "time zone", "UTC"],
    ),
    "moment that is none": (lambda t: t.at(60).enqueue("a"), ["at=60", "after="]),
    "negative wait": (lambda t: t.after(-1).enqueue("a"), ["after=-1", "negative"]),
    "negative timedelta": (
        lambda t: t.after(timedelta(seconds=-1)).enqueue("a"),
        ["after=", "negative"],
    ),
    "not a wait": (lambda t: t.after("soon").enqueue("a"), ["after='soon'", "timedelta"]),
    "not a number": (lambda t: t.after(float("nan")).enqueue("a"), ["after=nan"]),
    "endless wait": (lambda t: t.after(float("inf")).enqueue("a"), ["after=inf", "hundred years"]),
    "secret job": (lambda t: t.options(secret=True).enqueue("a"), ["@app.task(secret=True)"]),
    "unknown option": (
        lambda t: t.options(prio=3).enqueue("a"),
        ["'prio'", "'priority'?", "queue", "unique_for"],
    ),
    "time as option": (lambda t: t.options(delay=3).enqueue("a"), ["'delay'", ".after("]),
    "priority too high": (
        lambda t: t.options(priority=101).enqueue("a"),
        ["priority=101:", f"from {PRIORITIES[0]} to {PRIORITIES[-1]}"],
    ),
    "priority too low": (lambda t: t.options(priority=-101).enqueue("a"), ["priority=-101:"]),
    "priority not whole": (lambda t: t.options(priority=1.5).enqueue("a"), ["priority=1.5"]),
    "odd queue": (lambda t: t.options(queue="a b").enqueue("a"), ["queue 'a b'", "A-Z"]),
    "subject as queue": (lambda t: t.options(queue="a.>").enqueue("a"), ["queue 'a.>'"]),
    "empty queue": (lambda t: t.options(queue="").enqueue("a"), ["queue ''"]),
    "endless queue": (lambda t: t.options(queue="q" * 129).enqueue("a"), ["queue", "128"]),
    "limit of none": (
        lambda t: t.options(resource="r", limit=0).enqueue("a"),
        ["limit=0", "at least 1"],
    ),
    "unknown policy": (
        lambda t: t.options(when_busy="panic").enqueue("a"),
        ["'panic'", "wait, skip, replace"],
    ),
    "limit without a key": (lambda t: t.options(limit=2).enqueue("a"), ["limit", "resource="]),
    "policy without a key": (
        lambda t: t.options(when_busy="skip").enqueue("a"),
        ["when_busy", "resource="],
    ),
    "Celery's delay": (
        lambda t: t.delay("a"),
        ["no delay()", "await send.enqueue(", "send.enqueue_sync("],
    ),
    "Celery's apply_async": (
        lambda t: t.apply_async(("a",), countdown=3),
        ["no apply_async()", ".options(", ".after("],
    ),
    "Celery's signature": (lambda t: t.after(3).s("a"), ["no s()", "send.call("]),
    "Celery's countdown": (lambda t: t.enqueue("a", countdown=3), ["'countdown'", ".after("]),
    "Celery's eta": (lambda t: t.enqueue("a", eta=NAIVE), ["'eta'", ".at("]),
    "option among the arguments": (
        lambda t: t.enqueue("a", priority=9),
        ["'priority'", "send.options(priority="],
    ),
    "retries of a job": (
        lambda t: t.options(max_retries=3).enqueue("a"),
        ["'max_retries'", "Retry(max_retries="],
    ),
    "retry that is none": (
        lambda t: t.options(retry=5).enqueue("a"),
        ["retry=5", "Retry(max_retries=5)"],
    ),
    "retry with a function": (
        lambda t: t.options(retry=Retry(wait=lambda *_: 1)).enqueue("a"),
        ["wait function", "task"],
    ),
    "no time at all": (lambda t: t.options(timeout=0).enqueue("a"), ["timeout=0", "None"]),
    **{
        f"{name}={wrong!r}": (chosen(**{name: wrong}), [f"{name}={wrong!r}", *says])
        for name in ("expires", "deadline", "timeout")
        for wrong, says in WRONG_LENGTHS
    },
    **{
        f"max_reschedules={wrong!r}": (
            chosen(max_reschedules=wrong),
            [f"max_reschedules={wrong!r}", "from 1 to", "None"],
        )
        for wrong in (0, -1, True, 1.5, "many", 10**10)
    },
    "unique_for alone": (lambda t: t.options(unique_for=3).enqueue("a"), ["unique_for", "unique="]),
    "template of another task": (
        lambda t: t.options(unique="u:{who}").enqueue("a"),
        ["'who'", "to, times"],
    ),
    "broken template": (lambda t: t.options(resource="r:{to").enqueue("a"), ["resource='r:{to'"]),
    "endless key": (lambda t: t.options(unique="{to}").enqueue("k" * 251), ["unique key", "250"]),
    "unprintable key": (
        lambda t: t.options(resource="{to}").enqueue("a\nb"),
        ["resource key", "printable"],
    ),
    "too many arguments": (
        lambda t: t.enqueue("a", 1, 2),
        ["'send'", "too many", "(to: str, times: int = 1)"],
    ),
    "missing argument": (lambda t: t.enqueue(), ["'send'", "'to'", "(to: str, times: int = 1)"]),
    "unknown argument": (lambda t: t.enqueue("a", tims=2), ["'send'", "'tims'"]),
    "argument of a wrong type": (
        lambda t: t.enqueue("a", "b"),
        ["'send'", "'times'", "int", "str"],
    ),
    "argument that cannot be stored": (lambda t: t.enqueue(object()), ["'send'", "'to'", "object"]),
    "payload over the limit": (
        lambda t: t.enqueue("x" * 300_000),
        ["300,0", "262,144", "'to'", "payload_limit"],
    ),
}


@pytest.mark.parametrize("what", WRONG)
async def test_a_wrong_enqueue_is_refused_and_nothing_is_stored(
    app: Mita, any: Any, what: str
) -> None:
    wrong, says = WRONG[what]
    with pytest.raises(UsageError) as caught:
        await wrong(any)
    for part in says:
        assert part in str(caught.value)
    assert await total(app) == 0


async def test_one_wrong_call_among_many_stores_none(app: Mita, any: Any) -> None:
    stranger = Mita("memory://")

    @stranger.task
    async def elsewhere() -> None: ...

    wrongs: list[Any] = [elsewhere.call(), any, "send"]
    for wrong in wrongs:
        with pytest.raises(UsageError):
            await app.enqueue_many([any.call("a"), wrong])
    assert await total(app) == 0


async def test_an_unknown_task_is_refused_with_the_names_of_the_known_ones(
    app: Mita, any: Any
) -> None:
    with pytest.raises(UsageError, match=r"'sned'.*known: send"):
        app.find_task("sned")


# ---------------------------------------------------------------- declaring


def plain(a: int) -> None: ...


async def generator(a: int) -> Any:
    yield a


DECLARED: dict[str, tuple[dict[str, Any], Any, list[str]]] = {
    "unknown option": ({"retries": 3}, plain, ["'retries'", "retry=Retry(max_retries="]),
    "Celery's retries": ({"max_retries": 3}, plain, ["'max_retries'", "retry=Retry(max_retries="]),
    "Celery's rate limit": (
        {"rate_limit": "10/s"},
        plain,
        ["'rate_limit'", "rate=Rate(10, per=1)"],
    ),
    "Celery's countdown": ({"countdown": 3}, plain, ["'countdown'", ".after("]),
    "Celery's eta": ({"eta": NAIVE}, plain, ["'eta'", ".at("]),
    "Celery's bind": ({"bind": True}, plain, ["'bind'", "job: Job"]),
    "a part of a retry": ({"jitter": "none"}, plain, ["'jitter'", "retry=Retry("]),
    "a schedule": ({"cron": "@daily"}, plain, ["'cron'", "@app.repeats(Cron("]),
    "misspelt option": ({"timout": 3}, plain, ["'timout'", "did you mean 'timeout'?"]),
    "limit without a key": ({"limit": 2}, plain, ["limit", "resource="]),
    "policy without a key": ({"when_busy": "skip"}, plain, ["when_busy", "resource="]),
    "expires at once": ({"expires": 0}, plain, ["expires=0", "None"]),
    "deadline before the start": ({"deadline": -1}, plain, ["deadline=-1", "more than 0"]),
    "no reschedule at all": ({"max_reschedules": 0}, plain, ["max_reschedules=0", "1 to"]),
    "Dramatiq's max_age": ({"max_age": 60_000}, plain, ["'max_age'", "expires=<seconds>"]),
    "misspelt deadline": ({"dedline": 3}, plain, ["'dedline'", "did you mean 'deadline'?"]),
    "odd name": ({"name": "a b"}, plain, ["task 'a b'"]),
    "lambda": ({}, lambda: None, ["<lambda>", "name="]),
    "class": ({}, dict, ["not a function"]),
    "generator": ({}, generator, ["generator"]),
    "template": ({"resource": "account:{account}"}, plain, ["'account'", "(a)"]),
    "unique template": ({"unique": "x:{b}"}, plain, ["'b'"]),
    "priority": ({"priority": 101}, plain, ["priority=101"]),
    "final": ({"final": [3]}, plain, ["final=3", "ValueError"]),
    "final that is none": ({"final": 5}, plain, ["final=5", "ValueError"]),
    "empty name": ({"name": ""}, plain, ["task ''", "A-Z"]),
    "queue": ({"queue": "*"}, plain, ["queue '*'"]),
}


@pytest.mark.parametrize("what", DECLARED)
def test_a_wrong_declaration_is_refused(what: str) -> None:
    options, fn, says = DECLARED[what]
    app: Any = Mita("memory://")
    with pytest.raises(UsageError) as caught:
        app.task(**options)(fn)
    for part in says:
        assert part in str(caught.value)
    assert not app.tasks


def test_a_missing_method_is_an_attribute_error_too(app: Mita, any: Any) -> None:
    assert not hasattr(any, "delay")
    assert getattr(any, "apply_async", None) is None
    with pytest.raises(AttributeError, match="no attribute 'nosuch'"):
        any.nosuch  # noqa: B018


def test_options_must_be_given_by_name() -> None:
    app: Any = Mita("memory://")
    with pytest.raises(UsageError, match="by name"):
        app.task("mail")


def test_two_functions_cannot_have_one_name() -> None:
    app = Mita("memory://")
    app.task(name="plain")(plain)
    app.task(name="plain")(plain)
    with pytest.raises(UsageError, match=r"'plain' is taken by .*plain \(line \d+\).*name="):

        @app.task(name="plain")
        def other() -> None: ...


# ---------------------------------------------------------------- places and settings


@pytest.mark.parametrize(
    ("url", "says"),
    [
        ("mysql://localhost/jobs", ["'mysql'", "sqlite:///", "postgresql://", "nats://"]),
        ("jobs.db", ["'jobs.db'", "sqlite:///jobs.db"]),
        ("sqlite://jobs.db", ["names no file", "sqlite:///jobs.db"]),
        ("sqlite:///", ["names no file"]),
        ("sqlite:///:memory:", ["memory://"]),
        ("sqlite:///jobs.db?wal=off", ["'wal'"]),
        ("memory://?namespace=No-Good", ["'No-Good'", "a-z"]),
        ("mysql://me:secret@host/jobs", ["me:***@host"]),
        ("redis://[::1", ["cannot be read"]),
    ],
)
def test_a_wrong_url_is_refused_when_the_app_is_made(url: str, says: list[str]) -> None:
    with pytest.raises(UsageError) as caught:
        Mita(url)
    for part in says:
        assert part in str(caught.value)
    assert "secret" not in str(caught.value)


@pytest.mark.parametrize(
    ("url", "driver", "extra"),
    [
        ("postgresql://h/db", "psycopg", "postgres"),
        ("redis://h", "redis", "redis"),
        ("nats://h", "nats", "nats"),
    ],
)
async def test_a_missing_driver_names_the_extra_to_install(
    url: str, driver: str, extra: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in [
        name
        for name in sys.modules
        if name.split(".")[0] == driver or name.startswith(f"mita.stores.{extra}")
    ]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, driver, None)
    with pytest.raises(UsageError, match=rf"pip install 'mita\[{extra}\]'"):
        await StorePool(StoreURL.parse(url)).new()


def test_two_different_namespaces_are_refused() -> None:
    with pytest.raises(UsageError, match=r"'a'.*namespace=b"):
        Mita("memory://?namespace=b", namespace="a")


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({"keep": -1}, "keep=-1"),
        ({"keep_failed": "long"}, "keep_failed='long'"),
        ({"payload_limit": 0}, "payload_limit=0"),
        ({"keep_most": -1}, "keep_most=-1"),
        ({"retry": 3}, "retry=3"),
    ],
)
def test_wrong_settings_of_an_app_are_refused(options: dict[str, Any], says: str) -> None:
    with pytest.raises(UsageError, match=says):
        Mita("memory://", **options)


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({"queues": []}, "at least one queue"),
        ({"queues": "mail"}, r"\['mail'\]"),
        ({"queues": ["a b"]}, "queue 'a b'"),
        ({"queues": ["a", "a"]}, "twice"),
        ({"concurrency": 0}, "concurrency=0"),
        ({"concurrency": True}, "concurrency=True"),
        ({"threads": 0}, "threads=0"),
        ({"lease": 0.1}, "lease=0.1.*0.2 s"),
        ({"grace": -1}, "grace=-1"),
        ({"poll": 0}, "poll=0"),
        ({"name": "a b"}, "worker 'a b'"),
    ],
)
def test_wrong_settings_of_a_worker_are_refused(options: dict[str, Any], says: str) -> None:
    with pytest.raises(UsageError, match=says):
        Mita("memory://").worker(**options)


def test_a_worker_refuses_tasks_that_could_never_run() -> None:
    app = Mita("memory://")

    @app.task
    def fn(when: "Undefined") -> None: ...  # type: ignore[name-defined]  # noqa: F821

    with pytest.raises(UsageError, match=r"'fn'.*'when'"):
        app.worker()


# ----------------------------------------------- asking something of jobs, queues, keys and repeats


ASKED: dict[str, tuple[Callable[[Any, Any], Any], list[str]]] = {
    "reschedule an unknown job": (lambda a, _: a.reschedule("nope", after=1), ["'nope'", "keep="]),
    "cancel an unknown job": (lambda a, _: a.cancel("nope"), ["'nope'"]),
    "retry an unknown job": (lambda a, _: a.retry("nope"), ["'nope'"]),
    "explain an unknown job": (lambda a, _: a.explain("nope"), ["'nope'"]),
    "reschedule to nowhere": (lambda a, _: a.reschedule("nope"), ["at=", "after="]),
    "reschedule twice over": (lambda a, _: a.reschedule("nope", at=NAIVE, after=1), ["not both"]),
    "reschedule to a naive time": (lambda a, _: a.reschedule("nope", at=NAIVE), ["time zone"]),
    "priority out of range": (lambda a, _: a.prioritise("nope", 101), ["priority=101"]),
    "pause nothing": (lambda a, _: a.pause(), ["at least one queue"]),
    "pause an odd queue": (lambda a, _: a.pause("a b"), ["queue 'a b'"]),
    "hold without a time": (lambda a, _: a.hold("k"), ["until=", "after="]),
    "hold until a naive time": (lambda a, _: a.hold("k", until=NAIVE), ["until=", "time zone"]),
    "hold no key": (lambda a, _: a.hold("", after=1), ["resource key ''"]),
    "unknown state": (lambda a, _: a.jobs(state="done"), ["'done'", "scheduled, ready"]),
    "endless page": (lambda a, _: a.jobs(limit=10_000), ["limit=10000", "1000"]),
    "repeat of an odd key": (lambda a, t: a.repeat("a b", t.call("x"), Every(1)), ["repeat 'a b'"]),
    "repeat without pattern": (
        lambda a, t: a.repeat("k", t.call("x"), 60),
        ["pattern 60", "Every(seconds)"],
    ),
    "bad cron line": (
        lambda a, t: a.repeat("k", t.call("x"), Cron("61 * * * *")),
        ["'61 * * * *'", "5 fields"],
    ),
    "unknown zone": (
        lambda a, t: a.repeat("k", t.call("x"), Cron("0 9 * * *", "Mars/Dome")),
        ["'Mars/Dome'", "IANA"],
    ),
    "repeat that never fires": (
        lambda a, t: a.repeat("k", t.call("x"), Cron("0 0 30 2 *")),
        ["30 2"],
    ),
    "repeat of a timed call": (
        lambda a, t: a.repeat("k", t.after(3).call("x"), Every(1)),
        ["start_after"],
    ),
    "unknown repeat option": (
        lambda a, t: a.repeat("k", t.call("x"), Every(1), prio=1),
        ["'prio'", "start_after"],
    ),
    "unknown missed": (
        lambda a, t: a.repeat("k", t.call("x"), Every(1), missed="all"),
        ["'all'", "All(max_catchup)"],
    ),
    "unknown overlap": (
        lambda a, t: a.repeat("k", t.call("x"), Every(1), overlap="no"),
        ["'no'", "'skip'"],
    ),
    "limit of none": (lambda a, t: a.repeat("k", t.call("x"), Every(1), limit=0), ["limit=0"]),
    "naive start": (
        lambda a, t: a.repeat("k", t.call("x"), Every(1), start_after=NAIVE),
        ["start_after=", "time zone"],
    ),
    "unknown repeat": (lambda a, _: a.repeats.trigger("k"), ["'k'", "repeats.all()"]),
    "preview of an unknown repeat": (lambda a, _: a.repeats.preview("k"), ["'k'"]),
    "filter by a queue that cannot be": (lambda a, _: a.jobs(queue="a b"), ["queue 'a b'", "A-Z"]),
    "filter by a task that cannot be": (lambda a, _: a.jobs(task=""), ["task ''"]),
    "filter by no key": (lambda a, _: a.jobs(resource=""), ["resource key ''"]),
    "filter by a key that is none": (lambda a, _: a.jobs(unique=7), ["unique key 7"]),
    "filter by a strange repeat": (lambda a, _: a.jobs(repeat="a\nb"), ["repeat key 'a\\nb'"]),
    "filter by no error": (lambda a, _: a.jobs(error=""), ["error=''", "part of the error's text"]),
    "filter by an unknown state": (
        lambda a, _: a.jobs(state="done"),
        ["state='done'", "succeeded"],
    ),
    "page behind nothing": (
        lambda a, _: a.jobs(after="the last one"),
        ["after='the last one'", "page.after"],
    ),
    "nothing to wait for": (lambda a, t: _result(t, -1), ["timeout=-1"]),
}


async def _result(task: Any, timeout: float) -> None:
    await (await task.enqueue("a")).result(timeout)


@pytest.mark.parametrize("what", ASKED)
async def test_a_wrong_option_of_a_method_is_refused(app: Mita, any: Any, what: str) -> None:
    wrong, says = ASKED[what]
    with pytest.raises(UsageError) as caught:
        await wrong(app, any)
    for part in says:
        assert part in str(caught.value)
    assert await app.repeats.all() == []


@pytest.mark.parametrize(
    ("choices", "says"),
    [
        ({"secret": "to"}, "secret='to': give True, or a list"),
        ({"secret": 1}, "secret=1: give True, or a list"),
        (
            {"secret": ["pin"]},
            "secret names 'pin', which is not a parameter of the task (to, times)",
        ),
        (
            {"secret": True, "resource": "mail:{to}"},
            "resource='mail:{to}' would show 'to', an argument that is secret",
        ),
        ({"secret": ["to"], "unique": "{to}/{times}"}, "secret=['password']"),
    ],
)
def test_a_secret_task_with_arguments_in_its_keys_is_refused(
    app: Mita, choices: dict[str, Any], says: str
) -> None:
    async def send(to: str, times: int = 1) -> None: ...

    with pytest.raises(UsageError) as caught:
        app.task(**choices)(send)
    assert says in str(caught.value)
    app.task(secret=["to"], resource="times:{times}")(send)
    with pytest.raises(UsageError, match="an argument that is secret"):
        app.find_task("send").options(unique="{to}")


@pytest.mark.parametrize(
    "wrong",
    [
        Reschedule,
        lambda: Reschedule(after=-1),
        lambda: Reschedule(at=NAIVE),
        lambda: Unavailable(until=NAIVE),
        Unavailable,
        lambda: Every(0),
        lambda: Every(-3),
        lambda: All(0),
        lambda: Retry(max_retries=-1),
        lambda: Retry(max_retries=1001),
        lambda: Retry(base=-1),
        lambda: Retry(jitter="wild"),  # type: ignore[arg-type]
    ],
)
def test_wrong_arguments_are_refused_at_the_call(wrong: Callable[[], object]) -> None:
    with pytest.raises(UsageError):
        wrong()


async def test_a_sync_method_on_its_own_loop_is_refused(app: Mita, any: Any) -> None:
    async def call_sync() -> None:
        any.enqueue_sync("a")

    with pytest.raises(UsageError, match="wait for itself"):
        await asyncio.to_thread(app._portal, call_sync())
