"""The workers of the shop, as they describe themselves in the store."""

from mita.model.time import HOUR, MINUTE, Moment, Wait
from mita.model.view import WorkerView
from mita.ports.store import Store

from .tasks import STEPS

ALIVE_FOR: Wait = 12 * HOUR  # nothing renews what they say
_QUEUES = ("finance", "images", "imports", "mail", "orders", "payments", "search", "stock")
_TASKS = (
    *("charge_card", "daily_report", "fetch_page", "refund", "resize_image", "send_receipt"),
    *("sign_contract", "sync_stock"),
    *STEPS,
)


def _worker(number: int, **said: object) -> WorkerView:
    host = f"shop-{number}"
    facts: dict[str, object] = {
        "id": f"{host}#{number}f3a9c1e",
        "name": host,
        "host": f"{host}.internal",
        "pid": 4100 + 21 * number,
        "queues": _QUEUES,
        "tasks": _TASKS,
        "slots": 16,
        "rates": {},
        "window": MINUTE,
        "version": "0.2.0",
    }
    return WorkerView(**{**facts, **said})  # type: ignore[arg-type]


WORKERS = (
    _worker(1, running=2, rate=6.4, rates={"mail": 4.1, "payments": 2.3}, offset=3),
    _worker(2, running=2, rate=5.9, rates={"mail": 4.0, "images": 1.9}, offset=-12),
    _worker(3, queues=("warehouse",), slots=1, running=1, full=True, rate=0.4, version="0.1.4"),
)


async def beat_all(store: Store, now: Moment) -> None:
    """Store a heartbeat of each worker, started some hours ago."""
    for number, worker in enumerate(WORKERS, 1):
        facts = {name: getattr(worker, name) for name in worker.__struct_fields__}
        facts |= {"started": now - number * 5 * HOUR, "seen": now}
        if number == 3:
            facts["offset"] = 2_400  # its clock is wrong
        await store.beat(WorkerView(**facts), ALIVE_FOR)
