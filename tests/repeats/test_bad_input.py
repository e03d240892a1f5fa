"""A wrong repeat is refused when it is put, with the reason, and nothing is stored."""

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from mita import All, Cron, Every, Mita, UsageError

SOON = datetime.now(UTC) + timedelta(days=1)
HOURLY = "0 * * * *"

WRONG: dict[str, tuple[Callable[[Any], Any], dict[str, Any], list[str]]] = {
    "a minute": (lambda _: Cron("61 * * * *"), {}, ["field minute is '61'", "0 to 59"]),
    "an hour": (lambda _: Cron("0 24 * * *"), {}, ["field hour is '24'", "0 to 23"]),
    "a day": (lambda _: Cron("0 0 32 * *"), {}, ["field day of month is '32'", "1 to 31"]),
    "a month": (lambda _: Cron("0 0 1 FOO *"), {}, ["field month is 'FOO'", "JAN to DEC"]),
    "a weekday": (
        lambda _: Cron("0 0 * * MON-XYZ"),
        {},
        ["field day of week is 'MON-XYZ'", "SUN to SAT"],
    ),
    "a second": (lambda _: Cron("60 0 0 * * *"), {}, ["field second is '60'"]),
    "a step of none": (lambda _: Cron("*/0 * * * *"), {}, ["field minute is '*/0'"]),
    "a range that runs backwards": (lambda _: Cron("0 5-1 * * *"), {}, ["field hour is '5-1'"]),
    "a day that no month has": (
        lambda _: Cron("0 0 30 2 *"),
        {},
        ["field day of month is '30'", "no month '2'"],
    ),
    "too few fields": (lambda _: Cron("0 9 * *"), {}, ["4 fields", "5 fields", "6 with seconds"]),
    "an unknown nickname": (
        lambda _: Cron("@fortnightly"),
        {},
        ["@fortnightly is no name", "5 fields", "@daily"],
    ),
    "a start of a machine": (lambda _: Cron("@reboot"), {}, ["where your program starts"]),
    "an endless line": (lambda _: Cron("1," * 400 + "1 * * * *"), {}, ["at most 500"]),
    "a line that is no text": (lambda _: Cron(5), {}, ["are text"]),  # type: ignore[arg-type]
    "an unknown zone": (lambda _: Cron(HOURLY, tz="Mars/Dome"), {}, ["'Mars/Dome'", "IANA"]),
    "an offset of a day": (lambda _: Cron(HOURLY, tz="+24:00"), {}, ["'+24:00'"]),
    "no interval": (lambda _: Every(0), {}, ["Every(0)", "at least 0.01"]),
    "a negative interval": (lambda _: Every(-5), {}, ["Every(-5)", "at least 0.01"]),
    "nine milliseconds": (lambda _: Every(0.009), {}, ["Every(0.009)", "at least 0.01"]),
    "an interval of text": (lambda _: Every("60"), {}, ["Every('60')", "number"]),  # type: ignore[arg-type]
    "an end before the start": (
        lambda _: Every(1),
        {"start_after": SOON, "end_before": SOON - timedelta(hours=1)},
        ["end_before must come after start_after"],
    ),
    "an end at the start": (
        lambda _: Every(1),
        {"start_after": SOON, "end_before": SOON},
        ["end_before"],
    ),
    "an end that has passed": (
        lambda _: Every(1),
        {"end_before": SOON - timedelta(days=2)},
        ["never fire"],
    ),
    "no catch-up": (
        lambda _: Every(1),
        {"missed": lambda: All(0)},
        ["max_catchup=0", "missed='skip'"],
    ),
    "half a catch-up": (lambda _: Every(1), {"missed": lambda: All(1.5)}, ["max_catchup=1.5"]),  # type: ignore[arg-type]
    "half a limit": (lambda _: Every(1), {"limit": 1.5}, ["limit=1.5"]),
    "an unknown policy": (
        lambda _: Every(1),
        {"missed": "all"},
        ["missed='all'", "All(max_catchup)"],
    ),
    "an unknown overlap": (
        lambda _: Every(1),
        {"overlap": "kill"},
        ["overlap='kill'", "'queue', 'cancel'"],
    ),
    "to cancel all of a catch-up": (
        lambda _: Every(1),
        {"overlap": "cancel", "missed": All},
        ["missed='once' or 'skip'"],
    ),
    "a negative jitter": (lambda _: Every(1), {"jitter": -1}, ["jitter=-1", "0 (now) or more"]),
    "a jitter of text": (lambda _: Every(1), {"jitter": "5"}, ["jitter='5'", "seconds"]),
    "a jitter that is a truth": (lambda _: Every(1), {"jitter": True}, ["jitter=True", "seconds"]),
    "no jitter at all": (lambda _: Every(1), {"jitter": None}, ["jitter=None", "seconds"]),
    "a jitter that is no number": (lambda _: Every(1), {"jitter": float("nan")}, ["jitter=nan"]),
    "a jitter of ages": (lambda _: Every(1), {"jitter": 1e12}, ["a hundred years"]),
    "a pause after nothing": (lambda _: Every(1), {"pause_after": 0}, ["pause_after=0", "1 or"]),
    "a pause before": (lambda _: Every(1), {"pause_after": -3}, ["pause_after=-3", "1 or more"]),
    "a pause after a truth": (lambda _: Every(1), {"pause_after": True}, ["pause_after=True"]),
    "a pause after half": (lambda _: Every(1), {"pause_after": 1.5}, ["pause_after=1.5"]),
}


@pytest.fixture
def digest(app: Mita) -> Any:
    @app.task
    async def digest(day: str, n: int = 1) -> None: ...

    return digest


@pytest.fixture
async def app() -> Mita:
    return Mita("memory://")


async def put(app: Mita, digest: Any, what: str) -> None:
    pattern, choices, _ = WRONG[what]
    made = {name: value() if callable(value) else value for name, value in choices.items()}
    await app.repeat("k", digest.call("x"), pattern(None), **made)


@pytest.mark.parametrize("what", WRONG)
async def test_a_wrong_repeat_is_refused_with_the_reason(app: Mita, digest: Any, what: str) -> None:
    with pytest.raises(UsageError) as caught:
        await put(app, digest, what)
    for part in WRONG[what][2]:
        assert part in str(caught.value)
    assert await app.repeats.all() == []


@pytest.mark.parametrize("overlap", ["queue", "cancel"])
async def test_a_task_that_drops_jobs_at_a_busy_key_cannot_wait_for_its_repeat(
    app: Mita, overlap: Any
) -> None:
    @app.task(resource="account:{day}", when_busy="skip")
    async def keyed(day: str = "x") -> None: ...

    with pytest.raises(UsageError, match=r"when_busy='skip'.*when_busy='wait'"):
        await app.repeat("k", keyed.call(), Every(1), overlap=overlap)
    with pytest.raises(UsageError, match="when_busy='wait'"):
        app.repeats(Every(1), overlap=overlap)(keyed)
    assert await app.repeats.all() == []
    await app.repeat("k", keyed.options(resource=None).call(), Every(1), overlap=overlap)
    await app.repeat("w", keyed.options(when_busy="wait").call(), Every(1), overlap=overlap)


# an edit may end a repeat
@pytest.mark.parametrize("what", [what for what in WRONG if what != "an end that has passed"])
async def test_a_wrong_edit_does_not_change_the_repeat(app: Mita, digest: Any, what: str) -> None:
    before = await app.repeat("k", digest.call("x"), Every(60))
    with pytest.raises(UsageError):
        await put(app, digest, what)
    assert await app.repeats.all() == [before]


@pytest.mark.parametrize(
    "key", ["", "a b", "a/b", ".x", "x" * 129, "ключ", "a\n", "*", "k>", "{k}", 5]
)
async def test_an_odd_key_is_refused(app: Mita, digest: Any, key: Any) -> None:
    with pytest.raises(UsageError, match="is not a usable name"):
        await app.repeat(key, digest.call("x"), Every(1))
    assert await app.repeats.all() == []


async def test_a_repeat_with_wrong_arguments_is_refused(app: Mita, digest: Any) -> None:
    calls: list[Any] = [
        digest.call,
        lambda: digest.call("x", n="y"),
        lambda: digest.call("x", m=1),
        lambda: "digest",
    ]
    for call in calls:
        with pytest.raises(UsageError):
            await app.repeat("k", call(), Every(1))
    other = Mita("memory://")

    @other.task
    async def strange() -> None: ...

    with pytest.raises(UsageError, match="'strange'"):
        await app.repeat("k", strange.call(), Every(1))
    assert await app.repeats.all() == []


@pytest.mark.parametrize("n", [0, -1, 10_001, 1.5, True])
async def test_the_size_of_a_preview_is_limited(app: Mita, digest: Any, n: Any) -> None:
    await app.repeat("k", digest.call("x"), Every(1))
    with pytest.raises(UsageError, match="a preview shows"):
        await app.repeats.preview("k", n)


@pytest.mark.parametrize("lock", [-1, 0.01, float("nan"), "3"])
def test_a_wrong_lock_time_is_refused(app: Mita, lock: Any) -> None:
    with pytest.raises(UsageError, match="lock="):
        app.scheduler(lock=lock)
    with pytest.raises(UsageError, match="schedule_lock="):
        app.worker(schedule_lock=lock)


def test_a_scheduler_needs_a_poll_and_a_name_that_can_be_shown(app: Mita) -> None:
    with pytest.raises(UsageError, match="poll="):
        app.scheduler(poll=0)
    with pytest.raises(UsageError, match="scheduler 'a b'"):
        app.scheduler(name="a b")
