"""A browser of this machine, and what tests ask of its pages."""

import os
import shutil
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from playwright.async_api import Browser, BrowserContext, Page, Playwright, expect

HERE = Path(__file__).parent
CHECKS = (HERE / "checks.js").read_text()
FOCUS = (HERE / "focus.js").read_text()
NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable", "chrome")
PATIENCE_MS = 30_000  # far longer than anything takes, even on a busy machine
expect.set_options(timeout=PATIENCE_MS)
# sends what the content policy blocks to the page's own list
NOTE_VIOLATIONS = """
window.violations = [];
document.addEventListener("securitypolicyviolation", (event) =>
  window.violations.push(`${event.violatedDirective} ${event.blockedURI} ${event.sample}`));
"""


def find_browser() -> str | None:
    """The program of a browser: `$MITA_BROWSER`, or the first of `NAMES` on the path."""
    given = os.environ.get("MITA_BROWSER")
    return given or next((found for name in NAMES if (found := shutil.which(name))), None)


async def start_browser(playwright: Playwright, program: str) -> Browser:
    """Start it without a window. Root may only start it without its sandbox."""
    args = ["--disable-gpu", "--disable-dev-shm-usage"]
    if os.getuid() == 0:
        args.append("--no-sandbox")
    return await playwright.chromium.launch(executable_path=program, args=args)


class Seen:
    """What a page did that it must not do."""

    def __init__(self, page: Page) -> None:
        self.faults: list[str] = []
        page.on("dialog", self._dialog)
        page.on("pageerror", lambda error: self.faults.append(f"error: {error}"))
        page.on("console", self._console)

    async def _dialog(self, dialog: Any) -> None:
        self.faults.append(f"dialog: {dialog.message}")
        await dialog.dismiss()

    def _console(self, message: Any) -> None:
        if message.type == "error" and "favicon" not in message.text:
            self.faults.append(f"console: {message.text}")


@asynccontextmanager
async def context_of(
    browser: Browser, width: int = 1440, scheme: str = "light", **options: Any
) -> AsyncIterator[BrowserContext]:
    """A profile of its own, until the end of the block."""
    context = await browser.new_context(
        viewport={"width": width, "height": 900},
        color_scheme="dark" if scheme == "dark" else "light",
        reduced_motion="reduce",
        locale="en-GB",
        timezone_id="Europe/Amsterdam",
        **options,
    )
    context.set_default_timeout(PATIENCE_MS)
    await context.add_init_script(NOTE_VIOLATIONS)
    try:
        yield context
    finally:
        await context.close()


async def check_page(page: Page, known: Sequence[str] = ()) -> list[str]:
    """The faults of the open page, as sentences, without those that have one of the `known`
    texts."""
    found = await page.evaluate(CHECKS)
    faults = [f"{check}: {text} {element}".replace("  ", " ") for check, element, text in found]
    violations = await page.evaluate("window.violations ?? []")
    every = [*faults, *(f"content policy: {one}" for one in violations)]
    return [fault for fault in every if not any(text in fault for text in known)]
