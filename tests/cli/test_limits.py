"""`limit queue`, `limit key`, `keys`, and what `queues` shows of limits."""

import argparse
import asyncio
import io
from datetime import UTC, datetime
from pathlib import Path

import pytest

from mita import Key, Mita, Rate
from mita.cli.argtypes import rate
from mita.cli.snapshot import Snapshot, report
from mita.cli.table import Table, draw
from mita.model.gate import StoredLimit
from mita.model.time import HOUR
from mita.model.view import QueueView
from mita.rules.display import rate_option, rate_text

from .conftest import Run


def test_a_queue_is_limited_and_shown(mita: Run) -> None:
    mita("migrate")
    done = mita("limit", "queue", "mail", "--concurrency", "50", "--rate", "100/s")
    assert done.out.startswith("mail  50 at once, 100/s (it has had no job so far")
    assert "50 at once, 100/s" in mita("queues").out
    [view] = mita("queues", "--json").data["queues"]
    assert view["limit"] == {"concurrency": 50, "seconds_between_starts": 0.01, "burst": 1}
    assert mita("limit", "queue", "mail", "--none").out.startswith("mail  no limit")
    assert "50 at once" not in mita("queues").out


def test_a_key_is_limited_and_shown(mita: Run) -> None:
    mita("migrate")
    words = ("--concurrency", "0", "--rate", "60/m", "--burst", "5", "--queue", "mail")
    done = mita("limit", "key", "partner", *words)
    assert done.out.startswith("partner  stopped in mail (it has had no job so far")
    words = ("--concurrency", "3", *words[2:])
    done = mita("limit", "key", "partner", *words)
    text = "partner  3 at once, 1/s, burst 5 in mail; no job with this key runs or waits now\n"
    assert done.out == text
    header, row = mita("keys").out.splitlines()
    assert header.split() == [
        "KEY",
        "QUEUE",
        "RUNNING",
        "WAITING",
        "LIMIT",
        "RATE",
        "NEXT",
        "START",
    ]
    assert row.split() == ["partner", "mail", "0", "0", *["3", "at", "once", "1/s,", "burst", "5"]]
    [view] = mita("keys", "--json").data["keys"]
    assert (view["key"], view["queue"], view["waiting"]) == ("partner", "mail", 0)
    assert mita("keys", "--queue", "else").out.startswith("no key is held")


def test_show_names_all_keys_and_the_one_at_which_a_job_waits(mita: Run, project: Path) -> None:
    async def put() -> list[str]:
        async with Mita("sqlite:///jobs.db") as app:

            @app.task(resource=["account:1", Key("gpu", limit=2)], rate=Rate(1, 3600), fair="a")
            async def render() -> None: ...

            ids = [(await render.enqueue()).id for _ in range(2)]
            store = await app.open_store()
            await store.claim(["default"], 2, HOUR, "w1")
            await store.close()
            return ids

    first, second = asyncio.run(put())
    shown = mita("show", first).out
    assert "keys        account:1, gpu, task:" in shown
    assert "fair        group a" in shown
    assert "(waits at account:1)" in mita("show", second).out
    _, *rows = mita("keys").out.splitlines()
    assert [row.split()[:4] for row in rows[:2]] == [
        ["account:1", "default", "1", "1"],
        ["gpu", "default", "1", "0"],
    ]
    assert "1 per 1 h" in rows[2]


@pytest.mark.parametrize("width", [50, 80, 140])
def test_top_shows_limits_if_there_is_room(width: int) -> None:
    views = [
        QueueView(name="newsletters", ready=120_000, limit=StoredLimit(50, 10_000)),
        QueueView(name="mail", ready=4, limit=StoredLimit(concurrency=0)),
    ]
    now = datetime(2030, 1, 1, tzinfo=UTC)
    out = io.StringIO()
    for part in report(Snapshot("sqlite file jobs.db", now, views, [], (), {})).parts:
        if isinstance(part, Table):
            draw(part, out, width, colours=False)
    shown = out.getvalue()
    assert all(len(line) <= width for line in shown.splitlines()), shown
    assert "stopped" in shown
    assert ("50 at once, 100/s" in shown) is (width > 50)


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (["limit"], "say what to limit"),
        (["limit", "queue", "mail"], "--none removes"),
        (["limit", "queue", "mail", "--concurrency", "1", "--none"], "--none removes"),
        (["limit", "queue", "mail", "--burst", "3"], "--rate as well"),
        (["limit", "queue", "mail", "--concurrency", "-1"], "0 or more"),
        (["limit", "queue", "mail", "--rate", "fast"], "100/s"),
        (["limit", "queue", "mail", "--rate", "0/s"], "1 or more"),
        (["limit", "queue", "mail", "--rate", "-5/s"], "a value that begins with - needs a ="),
        (["limit", "queue", "mail", "--rate=-5/s"], "'-5/s' is not a rate"),
        (["limit", "queue", "a b", "--concurrency", "1"], "not a usable name"),
        (["limit", "key", "k", "--concurrency", "1"], "name the queue"),
    ],
)
def test_a_wrong_limit_is_refused(mita: Run, words: list[str], says: str) -> None:
    mita("migrate")
    done = mita(*words)
    assert done.code == 2
    assert says in done.err
    assert mita("queues").out.startswith("no queues yet")


@pytest.mark.parametrize(
    ("text", "interval_us", "shown"),
    [
        ("100/s", 10_000, "100/s"),
        ("60/m", 1_000_000, "1/s"),
        ("5/10s", 2_000_000, "1 per 2 s"),
        ("1000/hour", 3_600_000, "1000/h"),
        ("100/m", 600_000, "100/m"),
        ("300/s", 3_334, "300/s"),
        ("7/m", 8_571_429, "7/m"),
        ("2/5s", 2_500_000, "24/m"),
        ("1/2d", 172_800_000_000, "1 per 2 d"),
        ("3/d", 28_800_000_000, "1 per 8 h"),
        ("1000000/s", 1, "1000000/s"),
        ("3/7.7s", 2_566_667, "1/2.56667s"),
    ],
)
def test_rates_are_read_and_shown(text: str, interval_us: int, shown: str) -> None:
    found = rate(text)
    assert found.interval_us == interval_us
    assert rate_text(interval_us, 1) == shown
    assert rate_text(interval_us, 4) == f"{shown}, burst 4"
    again = rate(rate_option(interval_us)).interval_us
    assert abs(again - interval_us) <= max(1, interval_us * 1e-5), "the command line reads it"
    with pytest.raises(argparse.ArgumentTypeError):
        rate(text.replace("/", " per "))
