"""Queues, keys, flows, repeats and workers: their pages, and what their forms change."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta

import httpx
import pytest

from mita import Cron, Every, Handle, Job, Mita, Rate, Retry
from mita.model.record import DisplayState
from tests.waiting import until

from .test_first_pages import ORIGIN, visitor

NASTY = "<script>alert('x')</script>"


def shop() -> Mita:
    """An app with queues, keys, flows and repeats."""
    app = Mita("memory://")

    @app.task(queue="images", resource="gpu:{card}", retry=Retry(max_retries=0))
    async def resize(card: str, fail: bool = False) -> str:
        if fail:
            raise OSError("disk is full")
        return card

    @app.task(queue="reports")
    async def approve(job: Job) -> str:
        return str(await job.wait_for("approval"))

    @app.task(queue="reports")
    async def publish() -> None: ...

    return app


@asynccontextmanager
async def open_shop(**options: object) -> AsyncIterator[tuple[Mita, httpx.AsyncClient]]:
    app = shop()
    async with visitor(app, **options) as client:
        yield app, client


@asynccontextmanager
async def run_slowly(app: Mita) -> AsyncIterator[Handle[None]]:
    """A job with the key `lathe` that a worker runs until the end of the block."""
    begun, go = asyncio.Event(), asyncio.Event()

    @app.task(queue="reports", resource="lathe")
    async def slow() -> None:
        begun.set()
        await go.wait()

    job = await slow.enqueue()
    worker = app.worker(name="w1", concurrency=5)
    running = asyncio.create_task(worker.run())
    await begun.wait()
    yield job
    go.set()
    worker.stop()
    await running


async def sent(client: httpx.AsyncClient, path: str, **fields: str) -> str:
    """Send a form; returns what the next page says was done."""
    answer = await client.post(path, data=fields, headers=ORIGIN)
    assert answer.status_code == 303, answer.text
    page = (await client.get(answer.headers["location"])).text
    return page.partition('<p class="note" role="status">')[2].partition("</p>")[0]


async def refused(client: httpx.AsyncClient, path: str, **fields: str) -> str:
    answer = await client.post(path, data=fields, headers=ORIGIN)
    assert answer.status_code == 400
    return answer.text


# ---------------------------------------------------------------- queues


async def test_a_queue_is_paused_and_limited_from_its_page() -> None:
    async with open_shop() as (app, client):
        await app.tasks["publish"].enqueue()
        assert "reports" in (await client.get("/queues")).text
        said = await sent(client, "/queues/act", act="pause", queue="reports")
        assert said == "Queue reports is paused: running jobs end, no others start."
        assert "paused" in (await client.get("/queues")).text
        await sent(client, "/queues/act", act="resume", queue="reports")
        fields = {"concurrency": "3", "starts": "60", "per": "m", "burst": "5"}
        said = await sent(client, "/queues/act", act="limit", queue="reports", **fields)
        assert said == "Queue reports is limited: 3 at once, 1/s, burst 5."
        [view] = [view for view in await app.queues() if view.name == "reports"]
        assert view.paused is None
        assert view.limit is not None
        assert view.limit.concurrency == 3
        assert "3 at once, 1/s, burst 5" in (await client.get("/queues")).text
        await sent(client, "/queues/act", act="unlimit", queue="reports")
        [view] = [view for view in await app.queues() if view.name == "reports"]
        assert view.limit is None
        entries = (await app.audit()).entries
        assert [entry.via for entry in entries] == ["web"] * 4


@pytest.mark.parametrize(
    ("fields", "said"),
    [
        ({"act": "limit", "queue": "mail"}, "give a number of jobs at once"),
        ({"act": "limit", "queue": "mail", "concurrency": "x"}, "not a whole number"),
        ({"act": "limit", "queue": "mail", "starts": "5", "per": "y"}, "not a unit of time"),
        ({"act": "limit", "queue": "no queue", "concurrency": "1"}, "not a usable name"),
        ({"act": "limit", "queue": "mail", "starts": "0"}, "1 or more"),
        ({"act": "burn", "queue": "mail"}, "use one of pause"),
        ({"queue": "mail"}, "use one of pause"),
    ],
)
async def test_a_limit_that_makes_no_sense_is_refused(fields: dict[str, str], said: str) -> None:
    async with open_shop() as (app, client):
        assert said in await refused(client, "/queues/act", **fields)
        assert [view.limit for view in await app.queues()] == []


# ---------------------------------------------------------------- keys


async def test_keys_show_who_holds_them_and_who_waits() -> None:
    async with open_shop() as (app, client), run_slowly(app) as job:
        waiting = [await app.tasks["slow"].enqueue() for _ in range(3)]

        async def is_shown() -> bool:
            page = (await client.get("/keys")).text
            return f'href="/jobs/{job.id}"' in page and ">3</a>" in page

        await until(is_shown)
        assert (await app.get(waiting[0].id)) is not None
        assert "No key is held" in (await client.get("/keys", params={"key": "other"})).text


async def test_a_key_is_held_and_limited_from_its_page() -> None:
    async with open_shop() as (app, client):
        act = "/keys/act"
        hold = {"key": "gpu:a", "queue": "images", "for": "10", "unit": "m"}
        said = await sent(client, act, act="hold", **hold)
        assert said == "Key gpu:a is on hold in queue images for 10 m."
        [view] = await app.resources(queue="images", key="gpu:a")
        assert view.held_until is not None
        assert "on hold" in (await client.get("/keys")).text
        await sent(client, act, act="unhold", key="gpu:a", queue="images")
        assert [view.held_until for view in await app.resources(key="gpu:a")] in ([], [None])
        said = await sent(client, act, act="limit", key="gpu:a", queue="images", concurrency="2")
        assert said == "Key gpu:a is limited in queue images: 2 at once."
        [view] = await app.resources(queue="images", key="gpu:a")
        assert view.limit is not None
        assert view.limit.concurrency == 2
        await sent(client, act, act="unlimit", key="gpu:a", queue="images")
        assert await app.resources(key="gpu:a") == []


async def test_a_hold_without_a_length_is_refused() -> None:
    async with open_shop() as (app, client):
        assert "how long" in await refused(client, "/keys/act", act="hold", key="a")
        assert "not usable" in await refused(
            client, "/keys/act", act="hold", key="", **{"for": "1"}
        )
        assert await app.resources() == []


async def test_text_of_users_is_escaped() -> None:
    async with open_shop() as (app, client):
        await app.limit_key(NASTY, concurrency=1, queue="images")
        await app.tasks["resize"].enqueue(NASTY)
        for path in ("/keys", f"/keys?key={NASTY}", f"/repeats?cron={NASTY}", "/queues"):
            page = (await client.get(path)).text
            assert NASTY not in page
        assert "&lt;script&gt;" in (await client.get("/keys")).text


# ---------------------------------------------------------------- flows


async def test_a_flow_is_drawn_and_its_steps_are_listed() -> None:
    async with open_shop() as (app, client):
        flow = app.flow("album")
        begin = flow.add(app.tasks["publish"].call())
        for number in range(20):
            flow.add(app.tasks["resize"].call("a", fail=number == 7), after=[begin])
        run = await flow.enqueue()
        await app.worker(until_empty=True).run()
        listed = (await client.get("/flows")).text
        assert "album" in listed
        assert "21 of 21" in listed
        page = (await client.get(f"/flows/{run.id}")).text
        assert 'class="flow-graph"' in page
        assert "resize × 20" in page  # noqa: RUF001
        assert "19 done, 1 failed" in page
        assert "1 to 21 of 21" in page
        failed = (await client.get(f"/flows/{run.id}", params={"state": "failed"})).text
        assert "1 to 1 of 1" in failed
        assert "OSError: disk is full" in failed
        none = (await client.get(f"/flows/{run.id}", params={"task": "nothing"})).text
        assert "No step matches." in none


async def test_a_flow_is_cancelled_and_retried() -> None:
    async with open_shop() as (app, client):
        run = await app.chain(app.tasks["publish"].call(), app.tasks["publish"].call()).enqueue()
        act = f"/flows/{run.id}/act"
        said = await sent(client, act, act="cancel", reason="not today")
        assert said == "2 steps cancelled, or asked to stop."
        assert await sent(client, act, act="cancel") == "Nothing to do: its steps have ended."
        record = await app.get(f"{run.id}.000001")
        assert record is not None
        assert "not today" in record.timeline[-1].note
        assert await sent(client, act, act="retry") == "2 steps queued again."
        assert "act=" in await refused(client, act, act="burn")


async def test_a_step_that_waits_is_signalled_from_the_flow() -> None:
    async with open_shop() as (app, client):
        run = await app.chain(app.tasks["approve"].call(), name="release").enqueue()
        await app.worker(until_empty=True).run()
        page = (await client.get(f"/flows/{run.id}")).text
        assert "waits for the signal approval" in page
        path = f"/jobs/{run.id}.000001/act"
        await sent(client, path, act="signal", name="approval", value='"yes"')
        await app.worker(until_empty=True).run()
        flow = await run.get()
        assert flow is not None
        assert flow.state is DisplayState.SUCCEEDED
        assert "waits for the signal" not in (await client.get(f"/flows/{run.id}")).text


async def test_a_flow_that_is_not_there_is_not_found() -> None:
    async with open_shop() as (app, client):
        job = await app.tasks["publish"].enqueue()
        for id in ("nothing", job.id):
            assert (await client.get(f"/flows/{id}")).status_code == 404
        assert (await client.get("/flows")).status_code == 200


async def test_the_page_of_a_large_flow_does_not_wait_for_its_steps(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async with open_shop() as (app, client):
        run = await app.chain(app.tasks["publish"].call()).enqueue()
        slow, read = asyncio.Event(), type(run).get

        async def waits(self: object) -> object:
            await slow.wait()
            return await read(self)  # type: ignore[arg-type]

        monkeypatch.setattr(type(run), "get", waits)
        page = await client.get(f"/flows/{run.id}")
        assert "They are being read" in page.text
        assert '<div id="whole" data-live>' in page.text
        slow.set()

        async def is_shown() -> bool:
            return "flow-graph" in (await client.get(f"/flows/{run.id}")).text

        await until(is_shown)


# ---------------------------------------------------------------- repeats


async def test_a_repeat_shows_its_fires_and_what_clocks_do_to_them() -> None:
    async with open_shop() as (app, client):
        nightly = Cron("30 2 * * *", tz="Europe/Berlin")
        await app.repeat("nightly", app.tasks["publish"].call(), nightly)
        assert "At 02:30 every day (Europe/Berlin)" in (await client.get("/repeats")).text
        page = (await client.get("/repeats/nightly")).text
        assert page.count("02:30</span>") >= 10
        assert "clocks go " in page
        assert "before this" in page
        assert (await client.get("/repeats/other")).status_code == 404


async def test_a_repeat_is_paused_triggered_and_removed() -> None:
    async with open_shop() as (app, client):
        await app.repeat("tick", app.tasks["publish"].call(), Every(3600))
        act = "/repeats/act"
        assert await sent(client, act, act="pause", key="tick") == "Repeat tick is paused."
        assert await sent(client, act, act="pause", key="tick") == "Repeat tick was not active."
        assert "paused" in (await client.get("/repeats/tick")).text
        assert await sent(client, act, act="resume", key="tick") == "Repeat tick fires again."
        assert "made job" in await sent(client, act, act="trigger", key="tick")
        [job] = (await app.jobs(repeat="tick")).jobs
        assert job.id[:8] in (await client.get("/repeats/tick")).text
        said = await sent(client, act, act="remove", key="tick")
        assert said == "Repeat tick is removed; its jobs stay."
        assert await app.repeats.all() == []
        assert "no repeat" in await refused(client, act, act="trigger", key="tick")
        assert "use one of pause" in await refused(client, act, act="burn", key="tick")


async def test_a_backfill_is_shown_before_it_is_made() -> None:
    async with open_shop() as (app, client):
        await app.repeat("hourly", app.tasks["publish"].call(), Cron("0 * * * *"))
        end = datetime.now(UTC).replace(minute=30, second=0, microsecond=0) - timedelta(hours=1)
        start = end - timedelta(hours=20)
        span = {"start": f"{start:%Y-%m-%dT%H:%M}", "end": f"{end:%Y-%m-%dT%H:%M}"}
        page = (await client.get("/repeats/hourly", params=span)).text
        assert "20 fire times" in page
        assert "Enqueue 20 jobs" in page
        assert (await app.jobs()).jobs == (), "a page changes nothing"
        act = {"act": "backfill", "key": "hourly", **span}
        assert await sent(client, "/repeats/act", **act) == "Repeat hourly: 20 jobs enqueued."
        assert "20 were there already" in await sent(client, "/repeats/act", **act)
        wrong = await client.get("/repeats/hourly", params={"start": "x", "end": span["end"]})
        assert wrong.status_code == 200
        assert "is not a time" in wrong.text
        turned = {"start": span["end"], "end": span["start"]}
        assert "is not before" in (await client.get("/repeats/hourly", params=turned)).text


async def test_only_an_admin_makes_many_jobs() -> None:
    async with open_shop(authorize=lambda _: ("operate", "Ada")) as (app, client):
        await app.repeat("hourly", app.tasks["publish"].call(), Cron("0 * * * *"))
        assert "Backfill" not in (await client.get("/repeats/hourly")).text
        span = {"start": "2026-01-01", "end": "2026-01-02"}
        act = {"act": "backfill", "key": "hourly", **span}
        assert "needs the role" in await refused(client, "/repeats/act", **act)
        act = {"act": "remove", "key": "hourly"}
        assert "needs the role" in await refused(client, "/repeats/act", **act)
        assert (await app.jobs()).jobs == ()


async def test_a_pattern_is_tried_out() -> None:
    async with open_shop() as (_, client):
        query = {"cron": "0 9 * * MON-FRI", "tz": "America/New_York"}
        page = (await client.get("/repeats", params=query)).text
        assert "At 09:00 on Monday through Friday (America/New_York)" in page
        assert page.count("09:00</span>") == 10
        assert "every 10 m" in (await client.get("/repeats?every=10&unit=m")).text
        for wrong in ({"cron": "x y"}, {"cron": "0 9 * * *", "tz": "Nowhere/At"}, {"every": "-1"}):
            answer = await client.get("/repeats", params=wrong)
            assert answer.status_code == 200
            assert 'role="alert"' in answer.text


# ---------------------------------------------------------------- workers and readers


async def test_workers_show_what_they_run() -> None:
    async with open_shop() as (app, client):
        assert "No worker is alive" in (await client.get("/workers")).text
        async with run_slowly(app) as job:

            async def is_shown() -> bool:
                return f"/jobs/{job.id}" in (await client.get("/workers")).text

            await until(is_shown)
            page = (await client.get("/workers")).text
            assert "<b>w1</b>" in page
            assert "1 of 5" in page


async def test_a_reader_sees_the_pages_without_forms() -> None:
    async with open_shop(authorize=lambda _: "read") as (app, client):
        await app.repeat("tick", app.tasks["publish"].call(), Every(3600))
        await app.limit_queue("images", concurrency=1, rate=Rate(5))
        await app.limit_key("a", concurrency=1, queue="images")
        run = await app.chain(app.tasks["publish"].call()).enqueue()
        paths = ("/queues", "/keys", "/flows", f"/flows/{run.id}", "/repeats", "/repeats/tick")
        for path in (*paths, "/workers"):
            page = await client.get(path)
            assert page.status_code == 200
            assert 'method="post"' not in page.text, path
        for path in ("/queues/act", "/keys/act", f"/flows/{run.id}/act", "/repeats/act"):
            answer = await client.post(path, data={"act": "pause"}, headers=ORIGIN)
            assert answer.status_code == 403
