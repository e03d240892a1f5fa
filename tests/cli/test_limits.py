"""`limit queue`, `limit key`, `keys`, and what `queues` shows of limits."""

import argparse

import pytest

from mita.cli.limits import rate
from mita.rules.display import rate_text

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
    assert done.out == "partner  0 at once, 1/s, 5 at once in mail\n"
    assert "partner" in mita("keys").out
    [view] = mita("keys", "--json").data["keys"]
    assert (view["key"], view["queue"], view["waiting"]) == ("partner", "mail", 0)
    assert mita("keys", "--queue", "else").out.startswith("no key is held")


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
        ("1000/hour", 3_600_000, "1 per 3.6 s"),
    ],
)
def test_rates_are_read_and_shown(text: str, interval_us: int, shown: str) -> None:
    found = rate(text)
    assert found.interval_us == interval_us
    assert rate_text(interval_us, 1) == shown
    with pytest.raises(argparse.ArgumentTypeError):
        rate(text.replace("/", " per "))
