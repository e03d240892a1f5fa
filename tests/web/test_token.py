"""The token: asked for once, kept in a cookie, and never left in an address."""

from collections.abc import AsyncIterator

import pytest

from mita import Mita, UsageError
from mita.web import dashboard

from .asking import HOST, OWN_FORM, TOKEN, asking

ELSEWHERE = ("//evil.example", "https://evil.example/", "/\\evil.example", "javascript:alert(1)")


@pytest.fixture
async def shop(own_shop: Mita) -> AsyncIterator[Mita]:
    yield own_shop
    await own_shop.close()


def cookie_parts(header: str) -> set[str]:
    return {part.strip().lower() for part in header.split(";")[1:]}


async def test_a_token_in_the_address_becomes_a_cookie(shop: Mita) -> None:
    for scheme, secure in (("http", False), ("https", True)):
        async with asking(shop, client="192.0.2.7", scheme=scheme, token=TOKEN) as client:
            answer = await client.get(f"/jobs?state=failed&token={TOKEN}&tag=a")
            assert answer.status_code == 303
            assert answer.headers["location"] == "/jobs?state=failed&tag=a"
            header = answer.headers["set-cookie"]
            assert TOKEN not in header
            parts = cookie_parts(header)
            assert {"httponly", "samesite=strict", "path=/"} <= parts
            assert ("secure" in parts) == secure
            assert (await client.get("/jobs")).status_code == 200


async def test_a_token_in_the_address_leads_to_no_other_host(shop: Mita) -> None:
    for path in ("//evil.example/", "///evil.example", "/%2Fevil.example", "//evil.example//x"):
        async with asking(shop, client="192.0.2.7", token=TOKEN) as client:
            answer = await client.get(f"http://{HOST}{path}?token={TOKEN}")
            where = answer.headers["location"]
            assert where.startswith("/"), path
            assert not where.startswith(("//", "/\\")), path


async def test_without_the_token_only_the_form_for_it_is_shown(shop: Mita) -> None:
    async with asking(shop, client="192.0.2.7", token=TOKEN) as client:
        page = await client.get("/jobs?state=failed")
        assert page.status_code == 303
        assert page.headers["location"].startswith("/login")
        form = await client.get("/login")
        assert form.status_code == 200
        assert "queue" not in form.text
        assert (await client.get("/live")).status_code in (303, 401)
        for path in ("/jobs/act", "/queues/act"):
            refused = await client.post(path, headers=OWN_FORM, data={"act": "pause"})
            assert refused.status_code in (303, 401), path
    assert (await shop.queues())[0].paused is None


async def test_the_form_takes_the_token_and_goes_only_to_pages_of_the_dashboard(shop: Mita) -> None:
    for next in ("/jobs", *ELSEWHERE):
        async with asking(shop, client="192.0.2.7", token=TOKEN) as client:
            answer = await client.post(
                "/login", headers=OWN_FORM, data={"token": TOKEN, "next": next}
            )
            assert answer.status_code == 303
            where = answer.headers["location"]
            assert where == (next if next == "/jobs" else "/"), next
            assert "httponly" in cookie_parts(answer.headers["set-cookie"])
            assert (await client.get("/")).status_code == 200


async def test_wrong_tokens_are_refused_and_many_of_them_lock_the_door(shop: Mita) -> None:
    async with asking(shop, client="192.0.2.7", token=TOKEN) as client:
        wrong = await client.get("/", headers={"authorization": "Bearer wrong"})
        form = await client.post("/login", headers=OWN_FORM, data={"token": "wrong"})
        address = await client.get("/?token=wrong")
        assert [one.status_code for one in (wrong, form, address)] == [401, 401, 401]
        assert "set-cookie" not in form.headers
        for _ in range(20):
            last = await client.get("/?token=wrong")
        assert last.status_code == 429
        for one in (wrong, form, address, last):
            assert "script-src 'self'" in one.headers["content-security-policy"]
        cookie = await client.get("/", headers={"cookie": "mita_dashboard=forged"})
        assert cookie.status_code in (303, 429)


async def test_a_program_sends_the_token_in_a_header(shop: Mita) -> None:
    bearer = {"authorization": f"Bearer {TOKEN}"}
    async with asking(shop, client="192.0.2.7", token=TOKEN) as client:
        assert (await client.get("/jobs", headers=bearer)).status_code == 200
        answer = await client.post(
            "/queues/act", headers=bearer, data={"act": "pause", "queue": "mail"}
        )
        assert answer.status_code == 303
        foreign = await client.post(
            "/queues/act",
            headers={**bearer, "origin": "https://evil.example"},
            data={"act": "resume", "queue": "mail"},
        )
        assert foreign.status_code == 403
    [mail] = [queue for queue in await shop.queues() if queue.name == "mail"]
    assert mail.paused is not None


async def test_a_dashboard_below_a_path_keeps_its_cookie_there(shop: Mita) -> None:
    import httpx
    from starlette.applications import Starlette
    from starlette.routing import Mount

    outer = Starlette(routes=[Mount("/ops/jobs", dashboard(shop, token=TOKEN))])
    transport = httpx.ASGITransport(outer)
    async with httpx.AsyncClient(transport=transport, base_url=f"http://{HOST}") as client:
        answer = await client.get(f"/ops/jobs/jobs?token={TOKEN}")
        assert answer.headers["location"] == "/ops/jobs/jobs"
        assert "path=/ops/jobs" in cookie_parts(answer.headers["set-cookie"])
        page = await client.get("/ops/jobs/jobs")
        assert page.status_code == 200
        assert 'href="/ops/jobs/static/mita.css' in page.text
        assert 'href="/jobs' not in page.text


def test_a_short_token_is_refused(own_shop: Mita) -> None:
    with pytest.raises(UsageError, match="too short"):
        dashboard(own_shop, token="secret")
