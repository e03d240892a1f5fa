"""The shop in a store, a dashboard for it, and a browser: each once for all tests."""

import asyncio
import shutil
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest
import pytest_asyncio
from playwright.async_api import Browser, Page, async_playwright

from mita import Mita
from mita.cli.demo.shop import ShopTasks, seed_shop, shop_app

from .browsing import context_of, find_browser, start_browser
from .serving import served


@pytest.fixture(scope="session")
def shop_file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A file with the shop, which no test changes."""
    path = tmp_path_factory.mktemp("shop") / "shop.db"
    asyncio.run(seed_shop(f"sqlite:///{path}"))
    return path


@pytest.fixture(scope="session")
def shared_shop(shop_file: Path) -> Iterator[str]:
    """The address of a dashboard of the shop, for tests that only read."""
    app = shop_app(f"sqlite:///{shop_file}")
    ShopTasks(app)
    with served(app, title="shop") as address:
        yield address


@pytest.fixture
def own_shop(shop_file: Path, tmp_path: Path) -> Iterator[Mita]:
    """An app with a copy of the shop, for a test that changes it."""
    path = tmp_path / "shop.db"
    shutil.copy(shop_file, path)
    app = shop_app(f"sqlite:///{path}")
    ShopTasks(app)
    yield app
    app.close_sync()


@pytest.fixture
def address(own_shop: Mita) -> Iterator[str]:
    """The address of the dashboard of `own_shop`."""
    with served(own_shop, title="shop") as found:
        yield found


@pytest_asyncio.fixture(scope="session", loop_scope="session")
async def browser() -> AsyncIterator[Browser]:
    """One browser for all tests."""
    program = find_browser()
    if program is None:
        pytest.skip("there is no Chromium or Chrome on this machine; $MITA_BROWSER can name one")
    async with async_playwright() as playwright:
        browser = await start_browser(playwright, program)
        yield browser
        await browser.close()


@pytest_asyncio.fixture(loop_scope="session")
async def page(browser: Browser) -> AsyncIterator[Page]:
    """A page of 1440 pixels in light colours, in a profile of its own."""
    async with context_of(browser) as context:
        yield await context.new_page()
