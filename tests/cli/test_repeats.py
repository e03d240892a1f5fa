"""`repeats add`, `next`, `explain`, and `scheduler`."""

import asyncio
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from mita import Every, Mita, Retry
from mita.engine.scheduler import fire_due
from tests.waiting import wait_until

from .conftest import Run

ADD = ("--app", "shop:app", "repeats", "add")


def test_a_repeat_is_added_and_edited(mita: Run) -> None:
    said = mita(
        *ADD,
        "hello",
        "greet",
        "Ada",
        "times=2",
        "--every",
        "90s",
        "--queue",
        "mail",
        "--missed",
        "all:5",
    )
    assert (said.code, "hello  active  every 90 s; next " in said.out) == (0, True)
    [shown] = mita("repeats", "--json").data["repeats"]
    assert (shown["task"], shown["queue"], shown["missed"]) == ("greet", "mail", "all, at most 5")
    line = (
        "--cron",
        "0 9 * * MON-FRI",
        "--tz",
        "Europe/Madrid",
        "--limit",
        "3",
        "--overlap",
        "skip",
    )
    edited = mita(*ADD, "hello", "greet", "Bo", *line, "--json").data["repeat"]
    assert (edited["limit"], edited["overlap"], edited["missed"]) == (3, "skip", "skip")
    assert edited["words"] == "At 09:00 on Monday through Friday (Europe/Madrid)"
    mita("repeats", "trigger", "hello")
    [job] = mita("jobs", "--repeat", "hello", "--json").data["jobs"]
    assert (job["task"], job["queue"], job["repeat"]) == ("greet", "default", "hello")


def test_a_repeat_has_a_start_and_an_end(mita: Run) -> None:
    bounds = ("--start-after", "2040-01-01T00:00:00Z", "--end-before", "2040-01-01T00:02:00Z")
    assert mita(*ADD, "-", "greet", "Ada", "--every", "1m", *bounds).code == 0
    assert mita("repeats", "next", "greet:every-60000ms", "--json").data["fires"] == [
        "2040-01-01T00:00:00Z",
        "2040-01-01T00:01:00Z",
    ]
    said = mita("repeats", "explain", "greet:every-60000ms").out
    assert "from 2040-01-01 00:00:00 UTC on, until before 2040-01-01 00:02:00 UTC" in said


WRONG: dict[str, tuple[tuple[str, ...], str]] = {
    "no app": (("repeats", "add", "k", "greet", "--every", "5"), "--app"),
    "an unknown task": ((*ADD, "k", "nosuch", "--every", "5"), "'nosuch'"),
    "no pattern": ((*ADD, "k", "greet", "Ada"), "--every --cron"),
    "two patterns": (
        (*ADD, "k", "greet", "Ada", "--every", "5", "--cron", "* * * * *"),
        "not allowed",
    ),
    "a bad field": ((*ADD, "k", "greet", "Ada", "--cron", "0 25 * * *"), "field hour is '25'"),
    "a bad zone": ((*ADD, "k", "greet", "Ada", "--cron", "0 9 * * *", "--tz", "Mars"), "'Mars'"),
    "an interval in a zone": (
        (*ADD, "k", "greet", "Ada", "--every", "5", "--tz", "UTC"),
        "--tz goes with --cron",
    ),
    "no interval": ((*ADD, "k", "greet", "Ada", "--every", "0"), "at least 0.01"),
    "a call that does not fit": ((*ADD, "k", "greet", "Ada", "times=x", "--every", "5"), "'times'"),
    "an odd key": ((*ADD, "a b", "greet", "Ada", "--every", "5"), "'a b'"),
    "an unknown policy": (
        (*ADD, "k", "greet", "Ada", "--every", "5", "--missed", "some"),
        "skip, once, all",
    ),
    "no catch-up": ((*ADD, "k", "greet", "Ada", "--every", "5", "--missed", "all:0"), "1 or more"),
    "nothing to explain": (("repeats", "explain"), "WHAT"),
    "a bad line to explain": (("repeats", "explain", "0 9 * * FOO"), "field day of week is 'FOO'"),
}


@pytest.mark.parametrize("what", WRONG)
def test_wrong_use_says_what_is_wrong(mita: Run, what: str) -> None:
    words, says = WRONG[what]
    said = mita(*words)
    assert (said.code, says in said.err) == (2, True), said.err


def test_a_cron_line_is_explained_without_a_store(mita: Run) -> None:
    said = mita(
        "repeats",
        "explain",
        "30 2 * * *",
        "--tz",
        "America/New_York",
        "-n",
        "400",
        "--url",
        "sqlite:///nowhere/x.db",
    )
    lines = said.out.splitlines()
    assert lines[0] == "At 02:30 every day (America/New_York)"
    assert "clocks change" in lines[1]
    assert any("03:00:00 -0400 = 07:00:00 UTC" in line for line in lines), (
        "the day on which 02:30 does not exist"
    )
    assert sum("02:30:00" in line for line in lines) >= 398
    data = mita("repeats", "explain", "--every", "90s", "--json").data
    assert (data["words"], len(data["fires"])) == ("every 90 s", 5)


def test_the_fires_of_a_repeat_can_be_shown_in_another_time_zone(mita: Run) -> None:
    mita(
        *ADD,
        "hello",
        "greet",
        "Ada",
        "--cron",
        "0 9 * * *",
        "--tz",
        "Europe/Madrid",
        "--missed",
        "once",
        "--limit",
        "4",
    )
    said = mita("repeats", "explain", "hello").out
    for part in (
        "hello  active",
        "task greet",
        "at most 4 times",
        "one job for all fires that were missed",
        "09:00:00 +0",
    ):
        assert part in said
    in_tokyo = mita("repeats", "next", "hello", "--tz", "Asia/Tokyo").out.splitlines()
    assert len(in_tokyo) == 4
    assert all(":00:00 +0900 = " in line for line in in_tokyo)
    neither = mita("repeats", "explain", "nosuch")
    assert neither.code == 1
    assert (
        "no repeat 'nosuch' is in the store, and a cron line has 5 fields or 6; there are: hello"
        in neither.err
    )


def test_a_scheduler_fires_repeats_until_it_is_stopped(mita: Run, project: Path) -> None:
    mita(*ADD, "tick", "greet", "Ada", "--every", "0.1", "--limit", "3")
    command = [sys.executable, "-m", "mita", "scheduler", "shop:app", "--lock", "1s", "--log-json"]
    process = subprocess.Popen(command, cwd=project, stderr=subprocess.PIPE, text=True)
    try:
        wait_until(lambda: _count(mita) >= 3, "it fires")
        process.send_signal(signal.SIGTERM)
        _, said = process.communicate(timeout=60)
    finally:
        process.kill()
    assert process.returncode == 0
    assert "is now the repeat leader" in said
    assert "is no longer the repeat leader: it stops" in said
    assert [job["state"] for job in mita("jobs", "--repeat", "tick", "--json").data["jobs"]] == [
        "ready"
    ] * 3


def _count(mita: Run) -> Any:
    return mita("repeats", "--json").data["repeats"][0]["count"]


def test_a_repeat_shows_the_windows_that_it_dropped(mita: Run, project: Path) -> None:
    async def late() -> None:
        async with Mita("sqlite:///jobs.db") as app:

            @app.task
            async def greet(name: str) -> None: ...

            await app.repeat("late", greet.call("Ada"), Every(0.01))
            await asyncio.sleep(0.1)  # no scheduler runs during its first windows
            store = await app.open_store()
            await fire_due(store)
            await store.close()
            await app.repeats.pause("late")

    asyncio.run(late())
    data = mita("repeats", "show", "late", "--json").data["repeat"]
    assert data["dropped"] > 0
    assert f"dropped {data['dropped']} window" in mita("repeats", "show", "late").out
    assert f"{data['dropped']} window" in mita("repeats").out


def test_a_repeat_has_jitter_overlap_and_a_pause_after_failures(mita: Run) -> None:
    options = ("--jitter", "5m", "--overlap", "queue", "--pause-after", "3")
    assert mita(*ADD, "hello", "greet", "Ada", "--cron", "0 9 * * *", *options).code == 0
    data = mita("repeats", "show", "hello", "--json").data["repeat"]
    assert (data["jitter"], data["overlap"], data["pause_after"], data["failures"]) == (
        300.0,
        "queue",
        3,
        0,
    )
    shown = mita("repeats", "show", "hello").out
    assert "overlap: a new job waits until the last one has run" in shown
    assert "paused after 3 failures in a row: 0 so far" in shown
    coming = mita("repeats", "next", "hello", "-n", "2").out.splitlines()
    assert len(coming) == 3
    assert all("09:00:00 UTC" in line for line in coming[:2]), "the nominal times"
    assert coming[2] == "each up to 300 s later (jitter)"


def test_a_paused_repeat_shows_that_its_next_fires_do_not_come(mita: Run) -> None:
    assert mita(*ADD, "hello", "greet", "Ada", "--every", "10ms").code == 0
    assert mita("repeats", "pause", "hello").code == 0
    wait_until(lambda: "ago" in mita("repeats", "show", "hello").out)
    assert "next fires (none while it is paused):" in mita("repeats", "show", "hello").out


@pytest.mark.parametrize(
    "wrong",
    [
        ("--jitter", "-5"),
        ("--jitter", "soon"),
        ("--overlap", "kill"),
        ("--pause-after", "0"),
        ("--pause-after", "x"),
        ("--overlap", "cancel", "--missed", "all"),
    ],
)
def test_a_wrong_option_of_a_repeat_stores_nothing(mita: Run, wrong: tuple[str, ...]) -> None:
    mita(*ADD, "other", "greet", "Ada", "--every", "1m")
    said = mita(*ADD, "hello", "greet", "Ada", "--every", "1m", *wrong)
    assert said.code == 2
    assert [one["key"] for one in mita("repeats", "--json").data["repeats"]] == ["other"]


def test_a_repeat_that_was_paused_after_failures_says_so(mita: Run, project: Path) -> None:
    async def fail() -> str:
        async with Mita("sqlite:///jobs.db") as app:

            @app.task(retry=Retry(max_retries=0))
            async def charge() -> None:
                raise ValueError("no money")

            await app.repeat("shaky", charge.call(), Every(3600), pause_after=1)
            job = await app.repeats.trigger("shaky")
            await app.worker(until_empty=True).run()
            return job.id

    id = asyncio.run(fail())
    why = f"1 failure, the last of job {id}: ValueError: no money"
    assert f"shaky  paused: {why}" in mita("repeats", "show", "shaky").out
    assert why.split(":")[0] in mita("repeats").out
    said = mita("why", id).out
    assert "its repeat 'shaky' is paused" in said
    assert "repeats resume shaky" in said
    assert mita("repeats", "resume", "shaky").code == 0
    data = mita("repeats", "show", "shaky", "--json").data["repeat"]
    assert (data["state"], data["reason"], data["failures"]) == ("active", "", 0)


RANGE = ("--from", "2020-01-01", "--to", "2020-02-01")


def test_a_backfill_shows_its_plan_and_does_it_once(mita: Run) -> None:
    mita(*ADD, "hello", "greet", "Ada", "--cron", "0 9 * * *", "--tz", "Europe/Madrid")
    plan = mita("repeats", "backfill", "hello", *RANGE, "--dry-run")
    lines = plan.out.splitlines()
    assert lines[0] == "hello  31 fire times in the range"
    assert lines[1].strip() == "Wed 2020-01-01 08:00:00 UTC", "9 o'clock in Madrid"
    assert "… 21 more …" in plan.out
    assert mita("jobs", "--repeat", "hello", "--json").data["jobs"] == []
    done = mita("repeats", "backfill", "hello", *RANGE)
    assert (done.code, done.out.strip()) == (0, "hello  31 jobs enqueued")
    again = mita("repeats", "backfill", "hello", *RANGE, "--json").data
    assert (again["backfill"]["enqueued"], len(again["backfill"]["windows"])) == (0, 31)
    more = mita("repeats", "backfill", "hello", "--from", "2020-01-31", "--to", "2020-02-02")
    assert more.out.strip() == "hello  1 job enqueued, 1 there already"
    none = mita("repeats", "backfill", "hello", "--from", "2020-01-01", "--to", "2020-01-01T09:00")
    assert none.out.strip() == "hello  no fire time is in the range"


def test_a_backfill_of_many_shows_its_progress(mita: Run) -> None:
    mita(*ADD, "hello", "greet", "Ada", "--cron", "0 * * * *")
    done = mita("repeats", "backfill", "hello", *RANGE)
    assert done.out.strip() == "hello  744 jobs enqueued"
    assert "enqueuing: 744 of 744" in done.err


@pytest.mark.parametrize(
    ("wrong", "remedy"),
    [
        (("nobody", *RANGE), "there are: hello"),
        (("hello", "--from", "2020-02-01", "--to", "2020-01-01"), "not before"),
        (("hello", "--from", "2020-01-01", "--to", "2999-01-01"), "in the future"),
        (("hello", "--from", "yesterday", "--to", "2020-01-01"), "is not a time"),
        (("hello", "--from", "1980-01-01", "--to", "2020-01-01"), "split the range"),
        (("hello", "--from", "2020-01-01"), "--to"),
    ],
)
def test_a_wrong_backfill_enqueues_nothing(mita: Run, wrong: tuple[str, ...], remedy: str) -> None:
    mita(*ADD, "hello", "greet", "Ada", "--cron", "0 9 * * *")
    said = mita("repeats", "backfill", *wrong)
    assert said.code != 0
    assert remedy in said.err
    assert mita("jobs", "--json").data["jobs"] == []
