"""Who may do what: every route, every role, every method, from the table of routes."""

from collections.abc import AsyncIterator
from pathlib import Path

import httpx
import pytest

from mita import Mita
from mita.web import live
from mita.web.guard import HEADERS
from mita.web.pages.job_acts import ACTS as JOB_ACTS
from mita.web.roles import Role
from mita.web.routes import ROUTES

from .addresses import address, pages, sample
from .asking import HOST, OWN_FORM, TOKEN, asking, by_header, dump

METHODS = ("GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS", "TRACE")
REFUSALS = (401, 403, 405, 421)
ACTS = [route for route in ROUTES if route.method == "POST" and route.path != "/login"]
# a request that another site, or a page of another port, could make a browser send
FOREIGN: tuple[dict[str, str], ...] = (
    {},
    {"origin": "https://evil.example"},
    {"origin": "null"},
    {"origin": "http://127.0.0.1:9999"},
    {"origin": f"https://{HOST}.evil.example"},
    {"sec-fetch-site": "cross-site"},
    {"sec-fetch-site": "same-site"},
    {"sec-fetch-site": "none"},
    {"origin": f"http://{HOST}", "sec-fetch-site": "cross-site"},
    {"origin": "https://evil.example", "sec-fetch-site": "same-origin"},
    {"referer": f"http://{HOST}/jobs"},
)


@pytest.fixture
async def shop(own_shop: Mita) -> AsyncIterator[Mita]:
    """A copy of the shop, used on the event loop of the test."""
    yield own_shop
    await own_shop.close()


@pytest.fixture
def samples(own_shop: Mita) -> dict[str, str]:
    return sample(own_shop)


def check_headers(answer: httpx.Response) -> None:
    """Every answer forbids foreign scripts and frames."""
    wrong = [name for name, value in HEADERS.items() if answer.headers.get(name) != value]
    assert not wrong, f"{answer.request.method} {answer.url} {answer.status_code}: {wrong}"


def test_the_content_policy_allows_no_inline_script_and_no_other_host() -> None:
    policy = dict(
        part.strip().split(" ", 1) for part in HEADERS["Content-Security-Policy"].split(";")
    )
    assert policy["default-src"] == "'none'"
    assert policy["script-src"] == policy["style-src"] == policy["connect-src"] == "'self'"
    assert policy["frame-ancestors"] == policy["base-uri"] == "'none'"
    assert policy["form-action"] == "'self'"


async def test_every_route_and_method_is_only_for_its_role(
    shop: Mita, samples: dict[str, str]
) -> None:
    """A role below that of the route, and a method that the route does not have, are refused."""
    known = {(route.method, route.path): route for route in ROUTES}
    wrong = []
    async with asking(shop, authorize=by_header) as client:
        for route in ROUTES:
            for role in (None, *Role):
                for method in METHODS:
                    if route.path == "/live" and role is not None and method == "GET":
                        continue  # it has no end; `test_live` reads it
                    headers = {**OWN_FORM, **({"x-role": role.label} if role else {})}
                    answer = await client.request(method, address(route, samples), headers=headers)
                    check_headers(answer)
                    own = known.get(("GET" if method == "HEAD" else method, route.path))
                    if own is None and answer.status_code == 404:
                        continue  # `act` is taken for the name of a job or a repeat
                    may = own is not None and role is not None and role >= (own.role or 0)
                    if route.path == "/login" and answer.status_code == 401:
                        continue  # there is no token
                    if may == (answer.status_code in REFUSALS) or answer.status_code >= 500:
                        wrong.append(f"{method} {route.path} as {role}: {answer.status_code}")
    assert wrong == []


async def test_an_act_for_admins_is_refused_to_other_roles(shop: Mita, tmp_path: Path) -> None:
    [job] = (await shop.jobs(state="failed", task="charge_card", limit=1)).jobs
    before = dump(tmp_path / "shop.db")
    only_admins = [act for act in JOB_ACTS.values() if act.role is Role.ADMIN]
    assert only_admins
    async with asking(shop, authorize=by_header) as client:
        for role in (Role.READ, Role.OPERATE):
            headers = {**OWN_FORM, "x-role": role.label}
            for act in only_admins:
                for path in (f"/jobs/{job.id}/act", "/jobs/act"):
                    data = {"act": act.name, "id": job.id, "arguments": '{"cents": 1}'}
                    await client.post(path, headers=headers, data=data)
            remove = {"act": "remove", "key": "stock-lyon"}
            await client.post("/repeats/act", headers=headers, data=remove)
    after = dump(tmp_path / "shop.db")
    changed = [name for name in after if after[name] != before[name]]
    assert changed in ([], ["_mita_audit"])  # the log may say that it was refused


async def test_every_change_needs_a_form_of_the_dashboard(
    shop: Mita, samples: dict[str, str], tmp_path: Path
) -> None:
    before = dump(tmp_path / "shop.db")
    async with asking(shop) as client:
        for route in ROUTES:
            if route.method != "POST":
                continue
            for headers in FOREIGN:
                answer = await client.post(
                    address(route, samples), headers=headers, data={"act": "retry", "queue": "mail"}
                )
                assert answer.status_code == 403, (route.path, headers)
                check_headers(answer)
        assert dump(tmp_path / "shop.db") == before
        for route in ACTS:
            answer = await client.post(address(route, samples), headers=OWN_FORM)
            assert answer.status_code != 403, route.path


async def test_another_name_of_the_host_is_refused(shop: Mita, samples: dict[str, str]) -> None:
    """A page of another site whose name leads to this machine (DNS rebinding) gets nothing."""
    names = ("evil.example", "evil.example:8787", "127.0.0.1.evil.example", "", "localhost@evil")
    async with asking(shop) as client:
        for route in ROUTES:
            for name in names:
                headers = {"host": name, "origin": f"http://{name}"}
                answer = await client.request(
                    route.method, address(route, samples), headers=headers
                )
                assert answer.status_code == 421, (route.path, name)
                check_headers(answer)
        for name in ("localhost:8787", "127.0.0.1", "[::1]:8787", "LOCALHOST"):
            assert (await client.get("/", headers={"host": name})).status_code == 200, name
    async with asking(shop, token=TOKEN, hosts=["jobs.example"]) as client:
        bearer = {"authorization": f"Bearer {TOKEN}"}
        good = await client.get("/", headers={"host": "jobs.example", **bearer})
        bad = await client.get("/", headers={"host": "evil.example", **bearer})
        assert (good.status_code, bad.status_code) == (200, 421)


async def test_without_a_check_only_this_machine_is_answered(
    shop: Mita, samples: dict[str, str]
) -> None:
    async with asking(shop, client="192.0.2.7") as client:
        for route in ROUTES:
            answer = await client.request(route.method, address(route, samples), headers=OWN_FORM)
            assert answer.status_code == 403, route.path
            check_headers(answer)
    async with asking(shop) as client:
        for header in ("x-forwarded-for", "forwarded", "x-real-ip", "via"):
            assert (await client.get("/", headers={header: "192.0.2.7"})).status_code == 403


async def test_read_only_lets_nobody_change_anything(
    shop: Mita, samples: dict[str, str], tmp_path: Path
) -> None:
    before = dump(tmp_path / "shop.db")
    async with asking(shop, authorize=by_header, read_only=True) as client:
        for route in ACTS:
            headers = {**OWN_FORM, "x-role": "admin"}
            data = {"act": "pause", "queue": "mail", "key": "gpu"}
            answer = await client.post(address(route, samples), headers=headers, data=data)
            assert answer.status_code == 403, route.path
        overview = await client.get("/", headers={"x-role": "admin"})
        assert 'method="post"' not in overview.text
    assert dump(tmp_path / "shop.db") == before


async def test_a_page_never_changes_anything(
    shop: Mita, samples: dict[str, str], tmp_path: Path
) -> None:
    await shop.queues()  # the clock of the file is noted at the first use
    before = dump(tmp_path / "shop.db")
    async with asking(shop) as client:
        for route in pages():
            for query in ("", "?act=pause&queue=mail", "?limit=3&after=x&q=failed"):
                for method in ("GET", "HEAD"):
                    answer = await client.request(method, address(route, samples) + query)
                    assert answer.status_code < 500, (route.path, query)
    assert dump(tmp_path / "shop.db") == before


STRANGE = (
    "%00",
    "%ff%fe",
    "-1",
    "0",
    "999999999999999999999",
    "1e9",
    "x" * 3000,
    "../../etc",
    "🙈",
)


async def test_strange_addresses_are_no_errors_of_the_server(
    shop: Mita, samples: dict[str, str]
) -> None:
    names = ("limit", "after", "state", "queue", "since", "by", "task", "group", "preview", "tz")
    async with asking(shop) as client:
        for route in pages():
            where = address(route, samples)
            for text in STRANGE:
                query = "&".join(f"{name}={text}" for name in names)
                for one in (f"{where}?{query}", f"{where}?limit={text}", f"{where}?after={text}"):
                    answer = await client.get(one)
                    assert answer.status_code < 500, one
                    check_headers(answer)
            if "{" in route.path:
                answer = await client.get(f"{route.path.partition('{')[0]}{STRANGE[-1]}")
                assert answer.status_code in (200, 303, 404), answer.url


async def test_pages_and_forms_have_a_largest_size(shop: Mita) -> None:
    async with asking(shop) as client:
        huge = await client.get("/jobs?limit=100000")
        assert huge.text.count("data-row") <= 200
        one = await client.get("/jobs?limit=1")
        assert one.text.count("data-row") == 1
        for route in ACTS:
            body = {"act": "retry", "reason": "x" * 1_100_000}
            path = route.path.replace("{id}", "none").replace("{key}", "none")
            answer = await client.post(path, headers=OWN_FORM, data=body)
            assert answer.status_code in (400, 413), route.path


async def test_arguments_are_shown_only_to_roles_that_may_and_secrets_to_nobody(
    shop: Mita, samples: dict[str, str]
) -> None:
    [mail] = (await shop.jobs(task="send_receipt", limit=1)).jobs
    [card] = (await shop.jobs(task="save_card", limit=1)).jobs
    assert mail.arguments is not None
    wanted = mail.arguments["address"]
    async with asking(shop, authorize=by_header) as client:
        for role in Role:
            headers = {"x-role": role.label}
            page = await client.get(f"/jobs/{mail.id}", headers=headers)
            assert (wanted in page.text) == (role >= Role.OPERATE), role
            every = [f"/jobs/{card.id}", *(address(route, samples) for route in pages())]
            for one in every:
                text = (await client.get(one, headers=headers)).text
                assert "4242 4242" not in text, (role, one)
                assert role >= Role.OPERATE or wanted not in text, one


async def test_an_error_of_a_page_shows_nothing_of_its_text(
    shop: Mita, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def broken(*_: object, **__: object) -> None:
        raise RuntimeError("password=hunter2")

    monkeypatch.setattr(shop, "jobs", broken)
    async with asking(shop) as client:
        answer = await client.get("/jobs")
        assert answer.status_code == 500
        assert "hunter2" not in answer.text
        check_headers(answer)


def test_the_number_of_live_pages_is_limited() -> None:
    assert 10 <= live.MOST_PAGES <= 1000
