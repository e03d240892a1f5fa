"""python -m tools.screenshots: serve the dashboard of the shop and take its pictures for the guide,
into docs/guide/images. It needs Chromium or Chrome on this machine."""

import asyncio
import logging
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

from msgspec import Struct
from playwright.async_api import Browser, async_playwright
from tests.web.browsing import find_browser, start_browser
from tests.web.serving import served

from mita import Mita
from mita.cli.demo.shop import ShopTasks, seed_shop, shop_app

FOLDER = Path(__file__).parent.parent / "docs" / "guide" / "images"
MOST_BYTES = 150_000


class Shot(Struct, frozen=True):
    """One picture: its file, the page, the colours, and the size of the window in pixels."""

    name: str
    address: str
    scheme: str = "light"
    width: int = 1280
    height: int = 860


def shots(app: Mita) -> Iterator[Shot]:
    """The pictures of the guide."""
    yield Shot("overview", "/")
    yield Shot("overview-phone", "/", "dark", 390, 780)
    yield Shot("jobs", "/jobs?state=failed", height=620)
    [held] = app.jobs_sync(resource="account:acme", state="blocked", limit=1).jobs
    yield Shot("job", f"/jobs/{held.id}", "dark")
    [flow] = [one for one in app.flows_sync(limit=50).flows if one.name == "checkout"]
    yield Shot("flow", f"/flows/{flow.id}")
    yield Shot("dead", "/dead")
    yield Shot("keys", "/keys")
    yield Shot("repeats", "/repeats", "dark")
    yield Shot("workers", "/workers")
    yield Shot("audit", "/audit")


async def take(browser: Browser, root: str, shot: Shot, folder: Path) -> Path | None:
    """Take one picture. Returns its file; None if there is no such page."""
    context = await browser.new_context(
        viewport={"width": shot.width, "height": shot.height},
        color_scheme="dark" if shot.scheme == "dark" else "light",
        reduced_motion="reduce",
        locale="en-GB",
        timezone_id="UTC",
    )
    try:
        page = await context.new_page()
        answer = await page.goto(f"{root}{shot.address}", wait_until="load")
        if answer is None or answer.status != 200:
            print(f"{shot.address}: no picture, the page answered {answer and answer.status}")
            return None
        await page.locator("#live.on").wait_for()
        path = folder / f"{shot.name}.png"
        await page.screenshot(path=path, animations="disabled")
        return path
    finally:
        await context.close()


async def take_all(url: str, folder: Path) -> list[Path]:
    """Take all pictures of the store at this URL."""
    program = find_browser()
    if program is None:
        raise SystemExit("there is no Chromium or Chrome on this machine; $MITA_BROWSER names one")
    app = shop_app(url)
    ShopTasks(app)
    wanted = await asyncio.to_thread(lambda: list(shots(app)))
    with served(app, title="production") as root:
        async with async_playwright() as playwright:
            browser = await start_browser(playwright, program)
            taken = [await take(browser, root, shot, folder) for shot in wanted]
            await browser.close()
    await asyncio.to_thread(app.close_sync)
    return [path for path in taken if path is not None]


def main() -> None:
    """Seed a store, take the pictures, and keep them if none is too large."""
    logging.getLogger("mita").addHandler(logging.NullHandler())  # one run of the shop fails
    with tempfile.TemporaryDirectory(prefix="mita-") as place:
        url = f"sqlite:///{place}/shop.db"
        asyncio.run(seed_shop(url))
        taken = asyncio.run(take_all(url, Path(place)))
        FOLDER.mkdir(parents=True, exist_ok=True)
        for path in taken:
            size = path.stat().st_size
            if size > MOST_BYTES:
                raise SystemExit(f"{path.name} has {size:,} bytes, and {MOST_BYTES:,} are allowed")
            shutil.copy(path, FOLDER / path.name)
            print(f"{FOLDER.name}/{path.name}: {size:,} bytes")


if __name__ == "__main__":
    main()
