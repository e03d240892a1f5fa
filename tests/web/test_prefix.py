"""The dashboard below a path: behind a proxy that takes the path away, behind one that does not,
and behind nginx with the file of the guide."""

from pathlib import Path

import httpx
import pytest

from mita import Mita, UsageError
from mita.web import dashboard
from mita.web.place import path_of
from tests.contrib.mounting import GUIDE, check_live, check_pages
from tests.docs.pages import all_blocks

from .asking import HOST, OWN_FORM, TOKEN, asking
from .proxying import NGINX, nginx, proxied
from .serving import served


def visit(address: str, prefix: str, file: Path, secure: bool) -> None:
    """Enter with the token, look at every page, change something, and stay live."""
    with httpx.Client(base_url=address) as client:
        assert client.get(f"{prefix}/jobs").headers["location"] == f"{prefix}/login?next=%2Fjobs"
        form = {"token": TOKEN, "next": "/jobs"}
        headers = {"origin": address, "sec-fetch-site": "same-origin"}
        entered = client.post(f"{prefix}/login", data=form, headers=headers)
        assert entered.headers["location"] == f"{prefix}/jobs", entered.text
        cookie = entered.headers["set-cookie"]
        assert f"Path={prefix};" in cookie
        assert ("Secure" in cookie) == secure
        name, _, value = cookie.partition(";")[0].partition("=")
        client.cookies.clear()  # httpx keeps a secure cookie from http
        client.headers["cookie"] = f"{name}={value}"
        check_pages(client, prefix)
        check_live(client, prefix, file)


@pytest.mark.parametrize(
    ("prefix", "strips"),
    [("/ops/mita", True), ("/ops/mita", False), ("/jobs", False)],
    ids=["taken away", "left", "left, the name of a page"],
)
def test_a_proxy_shows_the_dashboard_below_a_path(
    own_shop: Mita, tmp_path: Path, prefix: str, strips: bool
) -> None:
    with (
        served(own_shop, token=TOKEN, prefix=f"{prefix}/") as upstream,
        proxied(upstream, prefix, strips) as address,
    ):
        visit(address, prefix, tmp_path / "shop.db", secure=True)


@pytest.mark.skipif(NGINX is None, reason="nginx is not installed")
def test_nginx_with_the_file_of_the_guide(own_shop: Mita, tmp_path: Path) -> None:
    [text] = [block.text for block in all_blocks(GUIDE) if block.file == "mita.conf"]
    with served(own_shop, token=TOKEN, prefix="/mita") as upstream:
        assert "http://127.0.0.1:8787;" in text
        text = text.replace("http://127.0.0.1:8787", upstream)
        with nginx(text, tmp_path) as address:
            visit(address, "/mita", tmp_path / "shop.db", secure=False)


async def test_without_a_token_a_request_through_a_proxy_is_refused(own_shop: Mita) -> None:
    async with asking(own_shop, prefix="/mita") as client:
        answer = await client.get("/mita/", headers={"x-forwarded-for": "192.0.2.7"})
        assert answer.status_code == 403
        assert "came through a proxy" in answer.text
        assert (await client.get("/mita/")).status_code == 200
        assert (await client.get("/")).status_code == 200, "a proxy that takes the prefix away"
    await own_shop.close()


async def test_a_prefix_that_is_a_page_must_stay_in_the_requests(own_shop: Mita) -> None:
    async with asking(own_shop, prefix="/jobs") as client:
        for path in ("/", "/queues"):
            answer = await client.get(path)
            assert answer.status_code == 404
            assert "also the name of a page" in answer.text
        assert (await client.get("/jobs/queues")).status_code == 200
    await own_shop.close()


async def test_redirects_stay_on_this_host(own_shop: Mita) -> None:
    """Whatever path is asked for: behind https the address of http would be wrong, and another
    host worse."""
    async with asking(own_shop) as client:
        for path in ("//evil.example/", "//evil.example/..//", "/\\evil.example/", "/jobs//"):
            answer = await client.get(f"http://{HOST}{path}")
            assert not answer.headers.get("location", "").startswith(("//", "http", "/\\")), path
        headers = {**OWN_FORM, "referer": f"http://{HOST}//evil.example/"}
        form = {"act": "pause", "queue": "mail"}
        answer = await client.post("/queues/act", headers=headers, data=form)
        assert answer.headers["location"] == "/"
    await own_shop.close()


@pytest.mark.parametrize(
    ("root", "path", "expected"),
    [
        ("", "/jobs", "/jobs"),
        ("/mita", "/mita/jobs", "/jobs"),
        ("/mita/", "/mita/jobs", "/jobs"),
        ("/mita", "/mita", "/"),
        ("/mita", "/jobs", "/jobs"),  # the root was taken away
        ("/mita", "/mitarbeiter", "/mitarbeiter"),
    ],
)
def test_the_path_below_the_root(root: str, path: str, expected: str) -> None:
    assert path_of({"root_path": root, "path": path}) == expected


@pytest.mark.parametrize(
    "prefix", ["mita", "//evil.example", "/a b", "/a/../b", "/a?b", "http://x"]
)
def test_a_prefix_that_is_not_a_path_is_refused(own_shop: Mita, prefix: str) -> None:
    with pytest.raises(UsageError, match="is not a path"):
        dashboard(own_shop, prefix=prefix)
