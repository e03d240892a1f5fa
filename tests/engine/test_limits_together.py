"""Keys, rates, shares and limits of queues together, on a worker that is woken by its store alone:
it neither polls nor sweeps while the test runs. On every store."""

from mita import Key, Mita, Rate
from mita.tasks import Call
from tests.waiting import until

from .conftest import working

ROUNDS = 3


async def test_jobs_with_all_kinds_of_limits_drain_without_polls(app: Mita) -> None:
    ran: list[str] = []

    @app.task
    async def work(name: str) -> None:
        ran.append(name)

    kinds = {
        "plain": work,
        "key": work.options(resource="account"),
        "rate": work.options(rate=Rate(50, key="host", burst=3)),
        "key and rate": work.options(resource="account", rate=Rate(50, key="host", burst=3)),
        "keys and rate": work.options(resource=["account", Key("gpu", limit=2)], rate=Rate(100)),
        "rate of a key": work.options(resource=Key("gpu", limit=2), rate=Rate(100, key="gpu")),
        "share": work.options(fair="a"),
        "share and rate": work.options(fair="b", rate=Rate(50, key="host", burst=3)),
        "urgent": work.options(priority=8, rate=Rate(50, key="host", burst=3)),
    }
    await app.limit_queue("capped", concurrency=3)
    await app.limit_queue("spaced", concurrency=20, rate=Rate(100, burst=4))
    await app.limit_key("gpu", concurrency=1, rate=Rate(50, burst=2), queue="keyed")
    queues = ("free", "capped", "spaced", "keyed")
    names = [f"{queue}: {kind} {n}" for n in range(ROUNDS) for queue in queues for kind in kinds]
    calls: list[Call[None]] = []
    for name in names:
        queue, kind = name.rsplit(" ", 1)[0].split(": ")
        calls.append(kinds[kind].options(queue=queue).call(name))
    async with working(app, queues=queues, poll=600, lease=600):
        await app.enqueue_many(calls[: len(calls) // 2])
        await until(lambda: len(ran) >= 5, "jobs run")
        await app.enqueue_many(calls[len(calls) // 2 :])
        await until(lambda: len(ran) >= len(names), "all of them run")
    assert sorted(ran) == sorted(names)
