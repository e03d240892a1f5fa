"""Fills a store with the shop: a day of jobs, and what is going on now."""

import asyncio

from mita.engine.scheduler import fire_due
from mita.model.time import DAY, HOUR, MINUTE, SECOND, Wait

from .clock import PastClock
from .flows import ShopFlows
from .past import ShopPast
from .present import fill_queues, put_repeats, set_limits, start_runs
from .tasks import ShopTasks, shop_app
from .workers import WORKERS, beat_all

HOURS_BACK = range(23, 0, -1)
LATE_BATCHES = range(50, 4, -4)  # minutes before now
REINDEX_AGO_HOURS = 9
FLOWS_AGO: Wait = 59 * MINUTE
SLOW_COUNTS: Wait = 15 * MINUTE
TURN_S = 0.01  # of real time
TURN: Wait = 50  # of the clock, in that time


async def seed_shop(url: str) -> None:
    """Fill the empty store at this URL, with the clock of the past. It takes about a second, and
    the jobs are much the same each time."""
    app, clock = shop_app(url), PastClock(DAY)
    async with app.using(url, clock=clock):
        store = await app.open_store()
        try:
            shop = ShopPast(app, ShopTasks(app), store, clock)
            await put_repeats(shop)
            await _day(shop)
            await set_limits(shop)
            await start_runs(shop)
            await fill_queues(shop)
            clock.go_to(0)
            await beat_all(store, clock.now())
        finally:
            await store.close()
    await app.close()


async def _day(shop: ShopPast) -> None:
    """Hour by hour, with the flows between them."""
    flows = ShopFlows(shop.app, shop.tasks)
    for hour in HOURS_BACK:
        await shop.go_to(hour * HOUR, SLOW_COUNTS)
        await shop.batch(8 + hour % 5, 2 * SECOND)
        if hour == REINDEX_AGO_HOURS:
            run = await flows.reindex()
            shop.clock.move(MINUTE)
            with shop.app.acting("bo", "the old index is good enough", via="cli"):
                await run.cancel("the old index is good enough")
    await shop.go_to(FLOWS_AGO, MINUTE)
    shop.tasks.broken = {5}
    with shop.app.acting("dana", "the mail host is back", via="web"):
        await shop.app.start_bulk("retry", task="send_receipt", reason="the mail host is back")
    await flows.catalogue()
    await flows.month_end()
    await _work(shop)
    await flows.onboarding()
    await flows.checkout()
    await shop.tasks.refund.options(id=shop.new_id()).enqueue(shop.order(), 4_900)
    await _work(shop)
    for minutes in LATE_BATCHES:
        await shop.go_to(minutes * MINUTE, MINUTE)
        await shop.batch(11, 2 * SECOND)
    await shop.go_to(3 * MINUTE, MINUTE)
    await fire_due(shop.store, keep=shop.app.kept.failed)
    await _work(shop)


async def _work(shop: ShopPast) -> None:
    """Let a worker run what is due, except in the warehouse. The clock goes on meanwhile: jobs at a
    rate wait for it."""
    worker = shop.app.worker(
        name=WORKERS[0].name, exclude=["warehouse"], until_empty=True, schedule=False
    )
    working = asyncio.create_task(worker.run())
    while not (await asyncio.wait([working], timeout=TURN_S))[0]:
        shop.clock.move(TURN)
    await working
