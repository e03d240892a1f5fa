"""python -m tools.screenshots: serve the dashboard of the shop and take its pictures for the guide,
into docs/guide/images. With a folder as its argument, it takes a picture of every page into that.
It needs Chromium or Chrome on this machine."""

import asyncio
import logging
import sys
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
    """One picture: its file, the page, the colours, and the size of the window in pixels. Not every
    picture is in the guide."""

    name: str
    address: str
    scheme: str = "light"
    width: int = 1280
    height: int = 860
    in_guide: bool = True


def shots(app: Mita) -> Iterator[Shot]:
    """One picture of each page."""
    yield Shot("overview", "/")
    yield Shot("overview-phone", "/", "dark", 390, 780)
    [held] = app.jobs_sync(resource="account:acme", state="blocked", limit=1).jobs
    yield Shot("job", f"/jobs/{held.id}", "dark")
    [flow] = [one for one in app.flows_sync(limit=50).flows if one.name == "checkout"]
    yield Shot("flow", f"/flows/{flow.id}")
    yield Shot("dead", "/dead", height=680)
    yield Shot("jobs", "/jobs?state=failed", height=620, in_guide=False)
    failed = app.jobs_sync(task="charge_card", state="failed", limit=1).jobs[0]
    yield Shot("job-failed", f"/jobs/{failed.id}", height=1300, in_guide=False)
    [waits] = app.jobs_sync(task="refund", limit=1).jobs
    yield Shot("job-waits", f"/jobs/{waits.id}", in_guide=False)
    for name in ("queues", "flows", "keys", "repeats", "workers", "audit", "bulk"):
        yield Shot(name, f"/{name}", in_guide=False)
        yield Shot(f"{name}-phone", f"/{name}", "dark", 390, 780, in_guide=False)
    yield Shot("repeat", "/repeats/stock-lyon", height=1200, in_guide=False)


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


async def take_all(url: str, folder: Path, every: bool) -> list[Path]:
    """Take the pictures of the store at this URL: those of the guide, or of every page."""
    program = find_browser()
    if program is None:
        raise SystemExit("there is no Chromium or Chrome on this machine; $MITA_BROWSER names one")
    app = shop_app(url)
    ShopTasks(app)
    wanted = await asyncio.to_thread(lambda: list(shots(app)))
    with served(app, title="production") as root:
        async with async_playwright() as playwright:
            browser = await start_browser(playwright, program)
            taken = [
                await take(browser, root, shot, folder) for shot in wanted if every or shot.in_guide
            ]
            await browser.close()
    await asyncio.to_thread(app.close_sync)
    return [path for path in taken if path is not None]


def main(given: str | None = None) -> None:
    """Seed a store and take the pictures. One that is too large for the guide ends this with an
    error."""
    logging.getLogger("mita").addHandler(logging.NullHandler())  # one run of the shop fails
    folder = FOLDER if given is None else Path(given)
    folder.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="mita-") as place:
        url = f"sqlite:///{place}/shop.db"
        asyncio.run(seed_shop(url))
        for path in asyncio.run(take_all(url, folder, every=given is not None)):
            size = path.stat().st_size
            print(f"{path.parent.name}/{path.name}: {size:,} bytes")
            if given is None and size > MOST_BYTES:
                raise SystemExit(f"{path.name} is too large: {MOST_BYTES:,} bytes at most")


if __name__ == "__main__":
    main(*sys.argv[1:2])
