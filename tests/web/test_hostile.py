"""Texts of users are shown as texts: no page runs a script that somebody has put into a job."""

import os
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import quote, urlencode

import pytest
from playwright.async_api import Browser, Page, expect

from mita import Mita

from .addresses import address, pages, sample
from .browsing import Seen, context_of
from .hostile import fill_sync
from .payloads import PAYLOADS
from .serving import served

pytestmark = pytest.mark.asyncio(loop_scope="session")

EVERY = bool(os.environ.get("MITA_SOAK"))
FILTERS = ("queue", "task", "tag", "resource", "unique", "repeat", "error", "state", "group")
# what only a text of a user could have made: elements, and links and forms to elsewhere
FOREIGN = """() => [
  ...document.querySelectorAll(`iframe, object, embed, base, frame, math, img, style,
    script:not([src*="/static/"]), link:not([href*="/static/"]), meta[http-equiv]`),
  ...[...document.querySelectorAll("a[href]")].filter(
    (one) => one.namespaceURI.endsWith("xhtml") && one.origin !== location.origin),
  ...[...document.forms].filter((one) => new URL(one.action).origin !== location.origin),
].map((one) => one.outerHTML)"""
# the stream of a live page would read each page twice
NOT_LIVE = "window.EventSource = class { addEventListener() {} close() {} };"


class HostileShop:
    """A dashboard whose store is full of payloads, and the ids of its jobs."""

    def __init__(self, root: str, app: Mita, ids: list[str]) -> None:
        self.root, self.app, self.ids = root, app, ids


@pytest.fixture
def hostile(tmp_path: Path) -> Iterator[HostileShop]:
    url = f"sqlite:///{tmp_path}/hostile.db"
    ids = fill_sync(url)
    app = Mita(url)
    with served(app, title=PAYLOADS[0]) as root:
        yield HostileShop(root, app, ids)
    app.close_sync()


def addresses(hostile: HostileShop) -> Iterator[str]:
    """Every page, the job of each payload, and each payload in the address itself."""
    samples = sample(hostile.app)
    for route in pages():
        yield address(route, samples)
    for id in hostile.ids:
        yield f"/jobs/{id}"
    flows = hostile.app.flows_sync(limit=len(PAYLOADS)).flows
    for flow in flows if EVERY else flows[::6]:
        yield f"/flows/{flow.id}"
    for i, payload in enumerate(PAYLOADS):
        if i % 3 and not EVERY:
            continue
        yield f"/jobs?{urlencode({FILTERS[i % len(FILTERS)]: payload, 'limit': 3})}"
        if i % 6 == 0:
            yield f"/jobs/{quote(payload, safe='')}"
            yield f"/jobs?{urlencode({'q': payload})}"
            yield f"/login?{urlencode({'next': payload})}"


async def test_no_text_of_a_user_becomes_a_script(browser: Browser, hostile: HostileShop) -> None:
    async with context_of(browser) as context:
        await context.add_init_script(NOT_LIVE)
        page = await context.new_page()
        seen, faults = Seen(page), list[str]()
        for where in addresses(hostile):
            answer = await page.goto(f"{hostile.root}{where}", wait_until="load")
            assert answer is not None
            if answer.status >= 500:
                faults.append(f"{where}: answered {answer.status}")
            faults += [f"{where}: {one}" for one in await _broken(page)]
        found = [one for one in seen.faults if "status of 4" not in one]
        assert [*faults, *found] == []


async def _broken(page: Page) -> list[str]:
    violations: list[str] = await page.evaluate("window.violations")
    foreign: list[str] = await page.evaluate(FOREIGN)
    return [*violations, *foreign]


async def test_each_text_is_shown_as_it_is(browser: Browser, hostile: HostileShop) -> None:
    """The page of a job has its payload: otherwise the test above would see nothing."""
    async with context_of(browser) as context:
        page = await context.new_page()
        for id, payload in list(zip(hostile.ids, PAYLOADS, strict=True))[:28:7]:
            await page.goto(f"{hostile.root}/jobs/{id}")
            await expect(page.locator("#live")).to_have_class("live on")  # and was read again
            assert await _broken(page) == []
            shown = " ".join((await page.locator("main").text_content() or "").split())
            assert shown.count(" ".join(payload.split())) >= 8, payload
