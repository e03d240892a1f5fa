"""The shop as it is now: jobs that run, wait, are blocked or due later, and what operators have set
meanwhile."""

from datetime import timedelta

import msgspec

from mita import Cron, Every, Rate
from mita.model.job import NewJob
from mita.model.outcome import Progress
from mita.model.record import ProgressReport
from mita.model.time import HOUR, MINUTE, SECOND, Wait

from .past import ShopPast
from .workers import WORKERS

RUN_LEASE: Wait = 2 * HOUR  # of the jobs that run: nothing renews them


async def put_repeats(shop: ShopPast) -> None:
    """The repeats of the shop, one of which is paused."""
    tasks, repeats = shop.tasks, shop.app.repeats
    minute = (shop.clock.time.minute + 30) % 60  # so that it is not late, whenever this is called
    await repeats.put("stock-rotterdam", tasks.sync_stock.call("rotterdam"), Every(7000))
    await repeats.put("stock-lyon", tasks.sync_stock.call("lyon"), Cron(f"{minute} */6 * * *"))
    await repeats.put("report-sales", tasks.daily_report.call("sales"), Cron("0 6 * * 1-5"))
    await repeats.put("report-tax", tasks.daily_report.call("tax"), Cron("0 5 1 * *"))
    await repeats.pause("report-tax")


async def set_limits(shop: ShopPast) -> None:
    """What operators have set: a paused queue, a hold and limits."""
    app = shop.app
    with app.acting("ada", "the printer is away until noon", via="cli"):
        await app.pause("reports")
    shop.clock.move(4 * SECOND)
    with app.acting("ada", "chargebacks, ticket 4711", via="web"):
        await app.hold("account:acme", after=timedelta(hours=3), queue="payments")
    shop.clock.move(5 * SECOND)
    with app.acting("cy", "the mail host complains", via="web"):
        await app.limit_queue("mail", concurrency=8, rate=Rate(5, per=1, burst=5))
    with app.acting("cy", "two cards are left", via="cli"):
        await app.limit_key("gpu", concurrency=2, queue="images")
    for job in (await app.jobs(task="send_receipt", state="failed", limit=2)).jobs:
        with app.acting("dana", "the customer has a new address", via="web"):
            await app.amend(job.id, arguments={"address": "new@example.com"})
            await app.retry(job.id)


async def start_runs(shop: ShopPast) -> None:
    """Jobs that run, with their progress, and jobs that wait for their keys."""
    tasks, store, clock = shop.tasks, shop.store, shop.clock
    images = [
        tasks.resize_image.options(id=_later(shop)).call(f"hero-{n}.jpg", 2400) for n in range(6)
    ]
    await shop.app.enqueue_many(images)
    runs = await store.claim(["images"], 4, RUN_LEASE, WORKERS[1].id)
    parcel = await store.claim(["warehouse"], 1, RUN_LEASE, WORKERS[2].id)
    clock.move(20 * SECOND)
    for accounts in (("globex", "initech"), ("acme", "acme", "globex")):
        for account in accounts:
            call = tasks.charge_card.options(id=_later(shop), tags=[f"customer:{account}"])
            await call.enqueue(shop.order(), account, 12_900)
        await store.claim(["payments"], 4, RUN_LEASE, WORKERS[0].id)
    clock.move(15 * SECOND)
    reports = [
        (37, 120, "frame 37 of 120"),
        (96, 120, "frame 96 of 120"),
        (2, 3, "wrapping"),
    ]
    claims = [*runs.claims, *parcel.claims]
    await store.progress(
        [
            Progress(claim, msgspec.msgpack.encode(ProgressReport(*report)))
            for claim, report in zip(claims, reports, strict=False)
        ]
    )


async def fill_queues(shop: ShopPast) -> None:
    """Jobs that are ready, scheduled, in a queue that no worker serves, and of a task that no
    worker knows."""
    tasks, app = shop.tasks, shop.app
    for number in range(3):
        await tasks.transcode_video.options(id=_later(shop)).enqueue(f"tour-{number}.mp4")
    for kind in ("sales", "returns", "visits"):
        await tasks.daily_report.options(id=_later(shop)).enqueue(kind)
    await shop.store.enqueue(
        [NewJob(id=_later(shop), task="send_fax", queue="mail", payload=b"\x80", priority=1)]
    )
    for hours in (1, 3, 9, 30):
        call = tasks.sync_stock.options(id=_later(shop), tags=["warehouse:lyon"])
        await call.after(timedelta(hours=hours)).enqueue("lyon")
    await shop.go_to(4 * SECOND, MINUTE)
    await app.enqueue_many(
        tasks.send_receipt.options(id=_later(shop), tags=["newsletter"]).call(
            shop.order(), "hana@example.com"
        )
        for _ in range(12)
    )
    page = await app.jobs(task="resize_image", state="blocked", limit=1)
    for job in page.jobs:
        with app.acting("bo", "the picture is not needed any more", via="cli"):
            await app.cancel(job.id, reason="the picture is not needed any more")


def _later(shop: ShopPast) -> str:
    """An id for a job that is enqueued now. The clock moves on, so that ids keep their order."""
    shop.clock.move(7)
    return shop.new_id()
