"""The shop's day until now: jobs that came, ran, failed and were tried again, batch by batch."""

import random
from collections.abc import Iterator
from itertools import groupby
from operator import attrgetter

import msgspec

from mita import Call, Mita
from mita.engine.scheduler import fire_due
from mita.model.ending import Ending, Returned
from mita.model.job import Claim
from mita.model.outcome import Settlement
from mita.model.time import HOUR, MINUTE, SECOND, Wait
from mita.ports.store import Store
from mita.rules.judge import judge

from .clock import PastClock
from .errors import ending_of
from .history import count_minutes
from .tasks import ShopTasks
from .workers import WORKERS

ACCOUNTS = ("acme", "globex", "initech", "umbrella", "hooli", "stark")
CUSTOMERS = ("ada", "bo", "cy", "dana", "eli", "fay", "gus", "hana")
BATCH_JOBS = 60  # more than a batch of the shop ever has
RUN_MS = {"charge_card": 900, "resize_image": 4200, "sync_stock": 2600}
OTHER_MS = 340
PLAIN_QUEUES = ("images", "mail", "payments", "reports", "stock")  # they have no steps of flows
RESULTS: dict[str, object] = {"send_receipt": "sent", "charge_card": "paid", "sync_stock": 18}


class ShopPast:
    """Writes the past into `store`, on `clock`. The same numbers come out each time."""

    def __init__(self, app: Mita, tasks: ShopTasks, store: Store, clock: PastClock) -> None:
        self.app, self.tasks, self.store, self.clock = app, tasks, store, clock
        self.chance = random.Random(17)
        self._order = 4000

    def new_id(self) -> str:
        """An id as Mita makes it, at the time of the clock."""
        time, chance = self.clock.now(), self.chance
        return f"{time:012x}7{chance.randrange(4096):03x}8{chance.getrandbits(60):015x}"

    def order(self) -> int:
        """The number of the next order."""
        self._order += 1
        return self._order

    async def go_to(self, ago: Wait, by: Wait) -> None:
        """Move the clock to `ago` before now, and count the runs on the way, every `by`."""
        while (now := self.clock.now()) < self.clock.end - ago:
            await count_minutes(self.store, now, self.clock.end, by // MINUTE)
            self.clock.move(min(by, self.clock.end - ago - now))

    async def batch(self, jobs: int, gap: Wait) -> None:
        """Enqueue so many jobs, run all that are due, and move the clock by `gap`."""
        await self.app.enqueue_many(self._calls(jobs))
        self.clock.move(self.chance.randrange(40, 400))
        worker = WORKERS[self.chance.randrange(2)]
        await fire_due(self.store, keep=self.app.kept.failed)
        start = self.clock.now()
        while await self._run_due(worker.id):  # jobs that waited for a key come in the next turn
            pass
        self.clock.move(max(0, start + gap - self.clock.now()))

    async def _run_due(self, worker: str) -> bool:
        """Run the jobs that are due, in the time that they take. Returns whether there were any."""
        turn = await self.store.claim(PLAIN_QUEUES, BATCH_JOBS, HOUR, worker)
        start = self.clock.now()
        for task, claims in groupby(sorted(turn.claims, key=_run_ms), key=attrgetter("task")):
            self.clock.move(max(0, start + RUN_MS.get(task, OTHER_MS) - self.clock.now()))
            await self.store.settle([self._settlement(claim) for claim in claims])
        return bool(turn.claims)

    def _settlement(self, claim: Claim) -> Settlement:
        hours_ago = (self.clock.end - self.clock.now()) / HOUR
        result = msgspec.msgpack.encode(RESULTS.get(claim.task))
        order = msgspec.msgpack.decode(claim.payload).get("order", self._order)
        failed = ending_of(claim.task, order, hours_ago, self.chance)
        ending: Ending = failed or Returned(result)
        spent = RUN_MS.get(claim.task, OTHER_MS) / SECOND
        return Settlement(
            claim, judge(claim, ending, self.app.kept, self.chance.random(), spent=spent)
        )

    def _calls(self, jobs: int) -> Iterator[Call[object]]:
        for _ in range(jobs):
            yield self._call(self.chance.random())

    def _call(self, roll: float) -> Call[object]:
        tasks, order, id = self.tasks, self.order(), self.new_id()
        customer = self.chance.choice(CUSTOMERS)
        tags = [f"customer:{customer}", f"order:{order}"]
        if roll < 0.42:
            return tasks.send_receipt.options(id=id, tags=tags).call(
                order, f"{customer}@example.com"
            )
        if roll < 0.76:
            cents = self.chance.randrange(500, 30_000)
            account = self.chance.choice(ACCOUNTS)
            return tasks.charge_card.options(id=id, tags=tags).call(order, account, cents)
        if roll < 0.93:
            return tasks.resize_image.options(id=id).call(f"{order}.jpg", 1600)
        if roll < 0.95:
            return tasks.save_card.options(id=id).call(customer, "4242 4242 4242 4242")
        return tasks.sync_stock.options(id=id, unique=f"stock:{order}").call("rotterdam")


def _run_ms(claim: Claim) -> tuple[int, str]:
    return RUN_MS.get(claim.task, OTHER_MS), claim.task
