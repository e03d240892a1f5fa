"""Every page can be used by everybody: on a phone and on a desk, in light and in dark, with a
screen reader, and without scripts."""

import os
from pathlib import Path

import pytest
from playwright.async_api import Browser, BrowserContext

from mita.cli.demo.shop import ShopTasks, shop_app

from .addresses import page_addresses, pages
from .browsing import FOCUS, Seen, check_page, context_of

pytestmark = pytest.mark.asyncio(loop_scope="session")

EVERY = bool(os.environ.get("MITA_SOAK"))
# in CI each page is seen in two of the four ways; `make soak` sees them all
WAYS = [(360, "light"), (1440, "dark"), *([(360, "dark"), (1440, "light")] if EVERY else [])]


@pytest.fixture(scope="session")
def addresses(shop_file: Path) -> list[str]:
    app = shop_app(f"sqlite:///{shop_file}")
    ShopTasks(app)
    try:
        return list(dict.fromkeys(page_addresses(app, every=EVERY)))
    finally:
        app.close_sync()


@pytest.mark.parametrize(("width", "scheme"), WAYS)
async def test_every_page_passes_the_checks(
    browser: Browser, shared_shop: str, addresses: list[str], width: int, scheme: str
) -> None:
    async with context_of(browser, width, scheme) as context:
        faults = await _faults(context, shared_shop, addresses)
    assert not faults, "\n".join(sorted(set(faults)))


async def _faults(context: BrowserContext, root: str, addresses: list[str]) -> list[str]:
    page = await context.new_page()
    seen, faults = Seen(page), list[str]()
    for address in addresses:
        answer = await page.goto(f"{root}{address}", wait_until="load")
        assert answer is not None
        if answer.status >= 400 and address != "/nothing-here":
            faults.append(f"{address}: answered {answer.status}")
        faults += [f"{address}: {fault}" for fault in await check_page(page)]
        await page.keyboard.press("Tab")
        unseen = await page.evaluate(FOCUS)
        faults += [f"{address}: the focus is not seen on {one}" for one in unseen]
    return [*faults, *(one for one in seen.faults if "404" not in one)]


async def test_pages_can_be_read_without_scripts(
    browser: Browser, shared_shop: str, addresses: list[str]
) -> None:
    async with context_of(browser, java_script_enabled=False) as context:
        page = await context.new_page()
        for address in [*addresses[: len(pages())], addresses[-1]]:
            await page.goto(f"{shared_shop}{address}")
            main = await page.inner_text("main")
            assert len(main.split()) > 3, address
            assert await page.locator("h1").count() == 1, address
            assert await page.locator("nav[aria-label=Pages] a").count() > 1, address
