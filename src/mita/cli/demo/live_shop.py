"""`mita demo --web`: the dashboard of a shop with a day behind it, in which jobs go on."""

import asyncio
import random
from pathlib import Path

from mita import Call, Mita
from mita.cli.screen import Report, Screen
from mita.cli.web_server import import_uvicorn, open_port, serve_until_stopped

from .commands import mita_command, url_of
from .shop import ShopFlows, ShopTasks, seed_shop, shop_app
from .shop.past import ACCOUNTS, CUSTOMERS

RUN_S = 4.0  # a run takes at most as long
ORDER_S = 0.8  # between two orders
FLOW_ORDERS = 25  # after so many orders one more flow begins
WORKER_SLOTS = 6
EARLIER_ORDERS = 6000


async def show_shop(path: Path, screen: Screen, keep: Path | None) -> Report:
    """Fill the file with the shop, and serve its dashboard until the program is stopped."""
    from mita.web import dashboard

    import_uvicorn()  # it is told at once if it is not installed

    screen.print_line("Mita: filling a shop with a day of jobs …", "bold")
    await seed_shop(url_of(path))
    app = shop_app(url_of(path))
    tasks = ShopTasks(app, pace_s=RUN_S)
    listener = open_port("127.0.0.1", 0)
    address = f"http://127.0.0.1:{listener.getsockname()[1]}/"
    async with app:
        worker = app.worker(name="shop-live", concurrency=WORKER_SLOTS, grace=0.5)
        working = asyncio.create_task(worker.run())
        ordering = asyncio.create_task(_order(app, tasks))
        try:
            screen.print_line(f"The dashboard is at {address} until you press Ctrl-C.", "bold")
            await serve_until_stopped(dashboard(app, title="demo"), listener)
        finally:
            ordering.cancel()
            worker.stop()
            await asyncio.wait([ordering, working])
    left = [] if keep is None else [f"{mita_command()} web --url {url_of(keep)}"]
    return Report({"address": address}, *left)


async def _order(app: Mita, tasks: ShopTasks) -> None:
    """Customers order all the time, so that the pages have something to show."""
    chance, flows = random.Random(), ShopFlows(app, tasks)
    order = EARLIER_ORDERS
    while True:
        await asyncio.sleep(ORDER_S)
        order += 1
        await app.enqueue_many(_calls(tasks, chance, order))
        if order % FLOW_ORDERS == 0:
            await chance.choice((flows.catalogue, flows.checkout, flows.reindex))()


def _calls(tasks: ShopTasks, chance: random.Random, order: int) -> list[Call[object]]:
    """What one order leads to."""
    customer = chance.choice(CUSTOMERS)
    tags = [f"customer:{customer}", f"order:{order}"]
    cents = chance.randrange(500, 30_000)
    calls: list[Call[object]] = [
        tasks.charge_card.options(tags=tags).call(order, chance.choice(ACCOUNTS), cents),
        tasks.send_receipt.options(tags=tags).call(order, f"{customer}@example.com"),
    ]
    if chance.random() < 0.2:
        calls.append(tasks.resize_image.call(f"{order}.jpg", 1600))
    return calls
