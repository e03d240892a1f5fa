"""The tasks of the shop. Their handlers do nothing but take the time that such work takes."""

import asyncio
import random
from collections.abc import Callable
from datetime import timedelta
from typing import Any

from mita import Job, Key, Mita, Rate, Retry
from mita.tasks import Task

SLOW_RETRY = Retry(max_retries=2, waits=(60.0, 300.0))
KEEP_DAYS = timedelta(days=2)
# the queues of the steps of flows, by the name of their task
STEPS = {
    "validate_order": "orders",
    "reserve_stock": "orders",
    "check_fraud": "orders",
    "write_invoice": "orders",
    "pack_parcel": "warehouse",
    "ship_parcel": "warehouse",
    "notify_customer": "warehouse",
    "merge_pages": "imports",
    "publish_catalogue": "imports",
    "close_books": "finance",
    "check_ledger": "finance",
    "file_taxes": "finance",
    "tidy_up": "finance",
    "build_index": "search",
    "swap_index": "search",
    "create_account": "orders",
    "send_welcome": "mail",
}


def shop_app(url: str) -> Mita:
    """Return an app for the store at this URL, which keeps its ended jobs for two days."""
    return Mita(url, keep=KEEP_DAYS)


class ShopTasks:
    """The tasks of the shop on `app`. `pace_s` is how many seconds a run takes at most; 0: none,
    and no run fails by chance. A page in `broken` cannot be fetched."""

    def __init__(self, app: Mita, pace_s: float = 0.0) -> None:
        self.pace_s, self.broken = pace_s, set[int]()
        self._chance = random.Random(pace_s)
        self.steps = {name: self._step(app, name, queue) for name, queue in STEPS.items()}
        self.fetch_page = self._pages(app)
        self.send_receipt, self.charge_card = self._orders(app)
        self.save_card = self._cards(app)
        self.resize_image, self.transcode_video = self._media(app)
        self.sync_stock, self.daily_report = self._repeated(app)
        self.refund, self.sign_contract = self._durable(app)

    async def _work(self, fails: Callable[[], Exception] | None = None) -> None:
        """Take a while, and fail now and then."""
        if self.pace_s:
            await asyncio.sleep(self.pace_s * self._chance.random())
            if fails is not None and self._chance.random() < 0.06:
                raise fails()

    def _step(self, app: Mita, name: str, queue: str) -> Task[[str], None]:
        async def step(what: str) -> None:  # noqa: ARG001 - it is shown
            await self._work()

        return app.task(name=name, queue=queue, retry=Retry(max_retries=0))(step)

    def _pages(self, app: Mita) -> Task[[int], int]:
        @app.task(name="fetch_page", queue="imports", retry=Retry(max_retries=0))
        async def fetch_page(number: int) -> int:
            await self._work()
            if number in self.broken:
                raise ConnectionResetError(f"the supplier closed the connection at page {number}")
            return 250

        return fetch_page

    def _orders(self, app: Mita) -> tuple[Task[[int, str], str], Task[[int, str, int], str]]:
        @app.task(name="send_receipt", queue="mail", rate=Rate(20, per=1, key="smtp", burst=40))
        async def send_receipt(order: int, address: str) -> str:  # noqa: ARG001 - they are shown
            await self._work(lambda: TimeoutError("no answer from the mail server after 30 s"))
            return "sent"

        @app.task(
            name="charge_card",
            queue="payments",
            priority=7,
            resource="account:{account}",
            retry=SLOW_RETRY,
            timeout=60,
        )
        async def charge_card(order: int, account: str, cents: int) -> str:  # noqa: ARG001
            await self._work(lambda: TimeoutError("no answer from the gateway after 10 s"))
            return f"paid {cents / 100:.2f}"

        return send_receipt, charge_card

    def _cards(self, app: Mita) -> Task[[str, str], None]:
        @app.task(name="save_card", queue="payments", secret=["card"])
        async def save_card(customer: str, card: str) -> None:  # noqa: ARG001 - they are shown
            await self._work()

        return save_card

    def _media(self, app: Mita) -> tuple[Task[[str, int], str], Task[[str], str]]:
        @app.task(name="resize_image", queue="images", resource=Key("gpu", 2), retry=SLOW_RETRY)
        async def resize_image(job: Job, file: str, width: int) -> str:
            for done in range(4):
                await job.progress(done, 4, f"{width} px")
                await self._work()
            return f"{file}@{width}"

        @app.task(name="transcode_video", queue="video")
        async def transcode_video(file: str) -> str:
            await self._work()
            return file

        return resize_image, transcode_video

    def _repeated(self, app: Mita) -> tuple[Task[[str], int], Task[[str], str]]:
        @app.task(name="sync_stock", queue="stock", expires=timedelta(hours=6))
        async def sync_stock(warehouse: str) -> int:
            await self._work()
            return len(warehouse)

        @app.task(name="daily_report", queue="reports", tags=["finance"])
        async def daily_report(kind: str) -> str:
            await self._work()
            return f"{kind}.pdf"

        return sync_stock, daily_report

    def _durable(self, app: Mita) -> tuple[Task[[int, int], str], Task[[str], str]]:
        @app.task(name="refund", queue="payments", tags=["customer-care"])
        async def refund(job: Job, order: int, cents: int) -> str:
            await job.step("look up the order", _found, order)
            answer: Any = await job.wait_for("approval", timeout=timedelta(days=2))
            return f"{cents} cents: {'refunded' if answer else 'refused'}"

        @app.task(name="sign_contract", queue="orders")
        async def sign_contract(job: Job, customer: str) -> str:
            await job.step("send the contract", _found, customer)
            await job.wait_for("signature")
            return customer

        return refund, sign_contract


def _found(what: int | str) -> str:
    return f"{what}: found"
