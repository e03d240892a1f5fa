"""Every button does what it says, pressed in a real browser."""

import asyncio
from collections.abc import Callable
from typing import Any

import pytest
from playwright.async_api import Page, expect

from mita import Mita
from mita.model.record import JobRecord

pytestmark = pytest.mark.asyncio(loop_scope="session")


async def ask(call: Callable[..., Any], *args: Any, **given: Any) -> Any:
    """Call a `_sync` method beside the event loop."""
    return await asyncio.to_thread(call, *args, **given)


async def one(app: Mita, **filters: Any) -> JobRecord:
    page = await ask(app.jobs_sync, limit=1, **filters)
    job: JobRecord = page.jobs[0]
    return job


async def state(app: Mita, id: str) -> str | None:
    job = await ask(app.get_sync, id)
    return None if job is None else str(job.state.value)


async def press(page: Page, name: str, within: str = "main") -> None:
    """Press a button, and confirm if it asks."""
    async with page.expect_navigation():
        await page.locator(within).get_by_role("button", name=name, exact=True).first.click()


async def test_the_buttons_of_a_job(own_shop: Mita, address: str, page: Page) -> None:
    page.on("dialog", lambda dialog: asyncio.ensure_future(dialog.accept()))
    failed = await one(own_shop, state="failed", task="charge_card")
    await page.goto(f"{address}/jobs/{failed.id}")
    await press(page, "Retry", "#acts")
    await expect(page.locator(".note")).to_contain_text("Retry: done")
    assert await state(own_shop, failed.id) in ("ready", "blocked")

    await page.get_by_label("Run after").fill("3600")
    await press(page, "Reschedule", "#acts")
    assert await state(own_shop, failed.id) == "scheduled"
    await press(page, "Run now", "#acts")
    assert await state(own_shop, failed.id) == "ready"

    await page.get_by_label("Priority").fill("9")
    await press(page, "Set", "#acts")
    assert (await ask(own_shop.get_sync, failed.id)).priority == 9

    await press(page, "Cancel", "#acts")
    assert await state(own_shop, failed.id) == "cancelled"
    await press(page, "Delete", "#acts")
    assert await state(own_shop, failed.id) is None
    await expect(page).to_have_url(f"{address}/jobs")


async def test_a_signal_is_sent_from_the_page_of_the_job_that_waits(
    own_shop: Mita, address: str, page: Page
) -> None:
    refund = await one(own_shop, task="refund")
    await page.goto(f"{address}/jobs/{refund.id}")
    await page.get_by_label("Value, as JSON").fill("no json")
    await press(page, "Send")
    await expect(page.locator("main")).to_contain_text("not JSON")
    await page.go_back()
    await page.get_by_label("Value, as JSON").fill('{"approved": true}')
    await press(page, "Send")
    job = await ask(own_shop.get_sync, refund.id)
    assert [(one.name, one.value) for one in job.signals] == [("approval", {"approved": True})]


async def test_the_why_box_names_the_reason_and_its_button_is_the_remedy(
    own_shop: Mita, address: str, page: Page
) -> None:
    report = await one(own_shop, queue="reports", state="ready")
    await page.goto(f"{address}/jobs/{report.id}")
    why = page.get_by_role("region", name="Why is it not running?")
    await expect(why).to_contain_text("paused")
    async with page.expect_navigation():
        await why.get_by_role("button").first.click()
    [queue] = [one for one in await ask(own_shop.queues_sync) if one.name == "reports"]
    assert queue.paused is None
    await expect(why).not_to_contain_text("is paused")


async def test_a_queue_is_paused_and_resumed_on_the_overview(
    own_shop: Mita, address: str, page: Page
) -> None:
    await page.goto(address)
    row = page.get_by_role("row").filter(has=page.get_by_role("link", name="images", exact=True))
    for name, is_paused in (("Pause", True), ("Resume", False)):
        async with page.expect_navigation():
            await row.get_by_role("button", name=name).click()
        [queue] = [one for one in await ask(own_shop.queues_sync) if one.name == "images"]
        assert (queue.paused is not None) == is_paused
        assert await row.get_by_text("paused").count() == int(is_paused)


async def test_ticked_jobs_are_retried_together_and_the_log_says_who_and_why(
    own_shop: Mita, address: str, page: Page
) -> None:
    await page.goto(f"{address}/jobs?state=failed&task=charge_card")
    boxes = page.locator("input[name=id]")
    ids = [await boxes.nth(i).get_attribute("value") for i in range(3)]
    for i in range(3):
        await boxes.nth(i).check()
    await page.get_by_placeholder("why").fill("the gateway is back")
    await press(page, "Retry", ".ticked")
    await expect(page.locator(".note")).to_contain_text("3 jobs")
    for id in ids:
        assert await state(own_shop, str(id)) in ("ready", "blocked")
    entries = (await ask(own_shop.audit_sync)).entries
    assert {entry.via for entry in entries[:1]} == {"web"}
    assert entries[0].why == "the gateway is back"
    assert entries[0].what.startswith("retry")
