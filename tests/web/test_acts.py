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

    await page.goto(f"{address}/audit?what=prioritise")
    link = page.locator("#entries").get_by_role("link", name=failed.id).first
    await expect(link).to_have_attribute("href", f"/jobs/{failed.id}")


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


async def test_the_arguments_of_a_job_are_changed(own_shop: Mita, address: str, page: Page) -> None:
    failed = await one(own_shop, state="failed", task="charge_card")
    await page.goto(f"{address}/jobs/{failed.id}")
    await page.get_by_text("Change the arguments").click()
    await page.locator("#arguments").fill('{"cents": "many"}')
    await press(page, "Change", "#amend")
    await expect(page.locator("main")).to_contain_text("cents")
    assert (await ask(own_shop.get_sync, failed.id)).arguments == failed.arguments
    await page.go_back()
    await page.get_by_text("Change the arguments").click()
    await page.locator("#arguments").fill('{"cents": 1234}')
    await press(page, "Change", "#amend")
    job = await ask(own_shop.get_sync, failed.id)
    assert job.arguments == {**(failed.arguments or {}), "cents": 1234}


async def key(app: Mita, name: str) -> Any:
    """The key of this name."""
    return next(one for one in await ask(app.resources_sync) if one.key == name)


async def test_a_key_is_held_and_limited(own_shop: Mita, address: str, page: Page) -> None:
    await page.goto(f"{address}/keys")
    row = page.get_by_role("row").filter(has_text="gpu")
    async with page.expect_navigation():
        await row.get_by_role("button", name="Hold 10 m").click()
    assert (await key(own_shop, "gpu")).held_until is not None
    async with page.expect_navigation():
        await row.get_by_role("button", name="End the hold").click()
    assert (await key(own_shop, "gpu")).held_until is None
    async with page.expect_navigation():
        await row.get_by_role("button", name="No limit").click()
    assert (await key(own_shop, "gpu")).limit is None
    form = page.locator("form").filter(has=page.get_by_role("button", name="Set the limit"))
    await form.get_by_label("Key").fill("gpu")
    await form.get_by_label("At once").fill("7")
    await press(page, "Set the limit")
    assert (await key(own_shop, "gpu")).limit.concurrency == 7
    form = page.locator("form").filter(has=page.get_by_role("button", name="Hold", exact=True))
    await form.get_by_label("Key").fill("gpu")
    await form.get_by_label("For").fill("2")
    await press(page, "Hold")
    assert (await key(own_shop, "gpu")).held_until is not None


async def test_a_queue_is_limited(own_shop: Mita, address: str, page: Page) -> None:
    async def limit() -> Any:
        return next(one.limit for one in await ask(own_shop.queues_sync) if one.name == "mail")

    await page.goto(f"{address}/queues")
    row = page.get_by_role("row").filter(has=page.get_by_role("link", name="mail", exact=True))
    async with page.expect_navigation():
        await row.get_by_role("button", name="No limit").click()
    assert await limit() is None
    form = page.locator("form").filter(has=page.get_by_role("button", name="Set the limit"))
    await form.get_by_label("Queue").fill("mail")
    await form.get_by_label("At once").fill("3")
    await press(page, "Set the limit")
    assert (await limit()).concurrency == 3


async def test_a_flow_is_retried_and_cancelled(own_shop: Mita, address: str, page: Page) -> None:
    page.on("dialog", lambda dialog: asyncio.ensure_future(dialog.accept()))
    flows = {flow.name: flow for flow in (await ask(own_shop.flows_sync, limit=20)).flows}
    await page.goto(f"{address}/flows")
    await page.get_by_role("link", name="month-end").first.click()
    await press(page, "Retry failed and cancelled steps")
    steps = (await ask(own_shop.flow_run(flows["month-end"].id).get_sync)).steps
    assert "failed" not in [str(step.state) for step in steps]
    await page.goto(f"{address}/flows/{flows['checkout'].id}")
    await expect(page.locator("#graph svg")).to_be_visible()
    await press(page, "Cancel", "#acts")
    steps = (await ask(own_shop.flow_run(flows["checkout"].id).get_sync)).steps
    assert "waiting" not in [str(step.state) for step in steps]


async def test_a_repeat_is_paused_triggered_backfilled_and_removed(
    own_shop: Mita, address: str, page: Page
) -> None:
    page.on("dialog", lambda dialog: asyncio.ensure_future(dialog.accept()))
    get = own_shop.repeats.get_sync
    before = len((await ask(own_shop.jobs_sync, repeat="stock-lyon")).jobs)
    await page.goto(f"{address}/repeats/stock-lyon")
    await press(page, "Pause", "#acts")
    assert str((await ask(get, "stock-lyon")).state) == "paused"
    await press(page, "Resume", "#acts")
    assert str((await ask(get, "stock-lyon")).state) == "active"
    await press(page, "Run once now", "#acts")
    jobs = (await ask(own_shop.jobs_sync, repeat="stock-lyon")).jobs
    assert len(jobs) == before + 1
    await page.get_by_label("From").fill("2026-01-01T00:00")
    await page.get_by_label("until before").fill("2026-01-02T00:00")
    await press(page, "Show what it would make")
    await press(page, "Enqueue 4 jobs")
    assert len((await ask(own_shop.jobs_sync, repeat="stock-lyon")).jobs) == before + 5
    await press(page, "Remove", "#acts")
    assert await ask(get, "stock-lyon") is None


async def test_a_group_of_dead_letters_is_retried_as_a_bulk_run(
    own_shop: Mita, address: str, page: Page
) -> None:
    """The page says how many jobs it would be, and changes nothing before the form is sent."""
    group = (await ask(own_shop.dead_groups_sync, limit=1))[0]
    await page.goto(f"{address}/dead")
    row = page.get_by_role("row").filter(has_text=group.error_type)
    await row.get_by_role("link", name="Retry …").click()
    await expect(page.get_by_role("region", name="How many jobs")).to_contain_text(
        f"{group.count} jobs would be changed"
    )
    assert (await ask(own_shop.dead_groups_sync, limit=1))[0].count == group.count
    await page.get_by_label("Why").fill("the gateway is back")
    await press(page, "Retry them")
    await expect(page.locator("#bulk")).to_contain_text("succeeded")
    await expect(page.locator("#bulk")).to_contain_text(f"{group.count}")
    assert group.group not in [one.group for one in await ask(own_shop.dead_groups_sync)]
    [entry] = (await ask(own_shop.audit_sync, what="retry", limit=1)).entries
    assert (entry.via, entry.why, entry.result) == ("web", "the gateway is back", "started")
    await page.goto(f"{address}/audit?what=retry")
    await page.locator("#entries").get_by_role("link", name="bulk run", exact=True).first.click()
    await expect(page).to_have_url(f"{address}/bulk/{entry.details['id']}")
