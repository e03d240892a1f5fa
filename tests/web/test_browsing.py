"""How people move about: by keys, by filters in the address, back, and with pages that are live."""

import asyncio
import time
from collections.abc import Callable
from typing import Any

import pytest
from playwright.async_api import Page, expect

from mita import Mita
from mita.web import live

pytestmark = pytest.mark.asyncio(loop_scope="session")

NEVER_S = 3600.0


async def test_the_keyboard_is_enough(shared_shop: str, page: Page) -> None:
    await page.goto(shared_shop)
    keys = page.keyboard
    await keys.press("?")
    await expect(page.get_by_role("dialog")).to_be_visible()
    await keys.press("Escape")
    await expect(page.get_by_role("dialog")).to_be_hidden()
    await keys.press("/")
    await expect(page.locator("#search")).to_be_focused()
    await keys.type("state:failed task:charge_card j")
    await keys.press("Escape")
    await expect(page.locator("#search")).not_to_be_focused()
    await keys.press("/")
    await page.locator("#search").fill("state:failed task:charge_card")
    await keys.press("Enter")
    await page.wait_for_url("**/jobs?*state=failed*")
    assert "task=charge_card" in page.url
    here = page.locator("[data-row].here")
    for key, row in (("j", 0), ("j", 1), ("j", 2), ("k", 1)):
        await keys.press(key)
        await expect(page.locator("[data-row]").nth(row)).to_have_class("here")
    await expect(here).to_have_count(1)
    await keys.press("x")
    await expect(here.locator("input[type=checkbox]")).to_be_checked()
    id = await here.locator("input[type=checkbox]").get_attribute("value")
    await keys.press("Enter")
    await page.wait_for_url(f"**/jobs/{id}")
    await keys.press("g")
    await keys.press("o")
    await page.wait_for_url(f"{shared_shop}/", wait_until="load")
    await expect(page.locator("#live")).to_have_class("live on")
    await keys.press("Tab")
    await expect(page.get_by_role("link", name="Skip to the content")).to_be_focused()
    await keys.press("Enter")
    await expect(page.locator("main")).to_be_focused()


async def test_filters_are_in_the_address_and_the_back_button_goes_back(
    shared_shop: str, page: Page
) -> None:
    await page.goto(f"{shared_shop}/jobs")
    await page.get_by_role("navigation", name="States").get_by_role("link", name="failed").click()
    await page.wait_for_url("**/jobs?state=failed")
    failed = await page.locator("[data-row]").count()
    await page.get_by_text("Filters", exact=True).click()
    await page.get_by_label("Queue").select_option("payments")
    await page.get_by_role("button", name="Show").click()
    await page.wait_for_url("**/jobs?*queue=payments*")
    assert "state=failed" in page.url
    some = await page.locator("[data-row]").all_inner_texts()
    assert 0 < len(some) < failed
    assert all("charge_card" in row for row in some)
    copy = await page.context.new_page()
    await copy.goto(page.url)
    assert await copy.locator("[data-row]").count() == len(some)
    await page.go_back()
    await page.wait_for_url("**/jobs?state=failed")
    assert await page.locator("[data-row]").count() == failed
    await page.go_forward()
    await page.get_by_label("Remove the filter queue payments").click()
    await page.wait_for_url("**/jobs?state=failed")


async def test_a_page_shows_what_happens_without_being_read_again_by_the_clock(
    own_shop: Mita,
    address: str,
    page: Page,
    monkeypatch: pytest.MonkeyPatch,
    record_property: Callable[[str, object], None],
) -> None:
    """The stream has no ticks here: what changes on the page was told by an event."""
    monkeypatch.setattr(live, "TICK_S", NEVER_S)
    loads: list[str] = []
    page.on("framenavigated", lambda frame: loads.append(frame.url))
    streams: list[str] = []
    page.on("request", lambda one: streams.append(one.url) if one.url.endswith("/live") else None)
    await page.goto(f"{address}/jobs?queue=default")
    await expect(page.locator("#live")).to_have_class("live on")
    await expect(page.locator("[data-row]")).to_have_count(0)
    assert await page.evaluate("document.body.dataset.changes ?? '0'") == "0"
    task = own_shop.find_task("sync_stock").options(queue="default")
    began = time.monotonic()
    handle: Any = await asyncio.to_thread(task.enqueue_sync, "lyon")
    await expect(page.locator("[data-row]")).to_have_count(1)
    took = time.monotonic() - began
    assert int(await page.evaluate("document.body.dataset.changes")) >= 1
    await asyncio.to_thread(own_shop.cancel_sync, handle.id)
    await expect(page.locator("[data-row]")).to_contain_text("cancelled")
    assert len(loads) == 1, "the page was loaded once"
    assert len(streams) == 1, "one stream told it everything"
    record_property("told", f"an enqueued job was on the page after {took * 1000:.0f} ms")


async def test_more_live_pages_than_allowed_are_refused(
    own_shop: Mita, address: str, page: Page, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(live, "MOST_PAGES", 2)
    pages = [page, await page.context.new_page(), await page.context.new_page()]
    for one in pages[:2]:
        await one.goto(address)
        await expect(one.locator("#live")).to_have_class("live on")
    async with pages[2].expect_response("**/live") as refused:
        await pages[2].goto(address)
    assert (await refused.value).status == 503
    await expect(pages[2].locator("#live")).to_have_text("not live")
    await pages[0].close()
    await pages[2].reload()
    await expect(pages[2].locator("#live")).to_have_class("live on")
