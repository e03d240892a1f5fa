"""The pages of the dashboard, asked for by a program."""

import re
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import httpx
import pytest

from mita import Mita, Retry
from mita.errors import UsageError
from mita.web import dashboard

TOKEN = "a token of many characters"
ORIGIN = {"Origin": "http://localhost", "Sec-Fetch-Site": "same-origin"}


def make_app() -> Mita:
    app = Mita("memory://")

    @app.task(queue="mail", retry=Retry(max_retries=0))
    async def send(to: str) -> str:
        if to == "nobody":
            raise ConnectionError("no route")
        return f"sent to {to}"

    return app


@asynccontextmanager
async def visitor(app: Mita, **options: object) -> AsyncIterator[httpx.AsyncClient]:
    site = dashboard(app, **options)  # type: ignore[arg-type]
    transport = httpx.ASGITransport(app=site, client=("127.0.0.1", 5000))
    async with app, httpx.AsyncClient(transport=transport, base_url="http://localhost") as client:
        yield client


async def test_the_first_pages_show_queues_and_jobs() -> None:
    app = make_app()
    async with visitor(app) as client:
        bad = await app.tasks["send"].enqueue("nobody")
        await app.worker(until_empty=True).run()
        overview = await client.get("/")
        assert overview.status_code == 200
        assert "mail" in overview.text
        jobs = await client.get("/jobs", params={"state": "failed"})
        assert bad.id in jobs.text
        one = await client.get(f"/jobs/{bad.id}")
        assert "no route" in one.text
        assert "Retry" in one.text


async def test_a_search_is_turned_into_filters() -> None:
    app = make_app()
    async with visitor(app) as client:
        job = await app.tasks["send"].enqueue("Ada")
        found = await client.get("/jobs", params={"q": 'queue:mail error:"no route" tag:a'})
        assert found.headers["location"] == "/jobs?queue=mail&error=no+route&tag=a"
        by_id = await client.get("/jobs", params={"q": job.id[:10]})
        assert by_id.headers["location"] == f"/jobs/{job.id}"


async def test_an_act_changes_a_job_and_says_so() -> None:
    app = make_app()
    async with visitor(app) as client:
        job = await app.tasks["send"].enqueue("Ada")
        done = await client.post(f"/jobs/{job.id}/act", data={"act": "cancel"}, headers=ORIGIN)
        assert done.status_code == 303
        record = await app.get(job.id)
        assert record is not None
        assert record.state == "cancelled"
        assert "Cancel: done." in (await client.get("/")).text
        [entry] = (await app.audit()).entries
        assert (entry.via, entry.what) == ("web", "cancel")


@pytest.mark.parametrize(
    "headers",
    [
        {},
        {"Origin": "http://evil.example"},
        {"Origin": "http://localhost", "Sec-Fetch-Site": "cross-site"},
        {"Sec-Fetch-Site": "none"},
    ],
)
async def test_a_form_of_another_site_changes_nothing(headers: dict[str, str]) -> None:
    app = make_app()
    async with visitor(app) as client:
        job = await app.tasks["send"].enqueue("Ada")
        refused = await client.post(f"/jobs/{job.id}/act", data={"act": "cancel"}, headers=headers)
        assert refused.status_code == 403
        record = await app.get(job.id)
        assert record is not None
        assert record.state == "ready"


async def test_a_token_is_exchanged_for_a_cookie() -> None:
    app = make_app()
    async with visitor(app, token=TOKEN) as client:
        asked = await client.get("/jobs")
        assert asked.headers["location"] == "/login?next=%2Fjobs"
        entered = await client.get("/jobs", params={"token": TOKEN, "state": "failed"})
        assert entered.headers["location"] == "/jobs?state=failed"
        cookie = entered.headers["set-cookie"]
        assert TOKEN not in cookie
        assert re.search("HttpOnly", cookie)
        assert re.search("SameSite=strict", cookie, re.IGNORECASE)
        assert (await client.get("/jobs")).status_code == 200


async def test_a_wrong_app_or_token_is_refused_at_once() -> None:
    with pytest.raises(UsageError, match="give a Mita app"):
        dashboard("app")  # type: ignore[arg-type]
    with pytest.raises(UsageError, match="too short"):
        dashboard(make_app(), token="short")


@pytest.mark.parametrize("name", ["path", "self", "changes", "query", "visit"])
async def test_any_name_may_be_in_the_address(name: str) -> None:
    async with visitor(make_app()) as client:
        for page in ("/", "/jobs", "/audit", "/dead", "/flows"):
            assert (await client.get(page, params={name: "x"})).status_code == 200


async def test_wrong_tokens_do_not_lock_out_a_visitor_who_has_entered() -> None:
    async with visitor(make_app(), token=TOKEN) as client:
        await client.get("/", params={"token": TOKEN})
        for _ in range(12):
            await client.post("/login", data={"token": "wrong"}, headers=ORIGIN)
        assert (await client.get("/")).status_code == 200
        client.cookies.clear()
        assert (await client.get("/", params={"token": TOKEN})).status_code == 429
