"""Three servers and three copies. In every run leaders step down during the work; with MITA_SOAK
they are killed. `MITA_CLUSTER_JOBS=n` sets the number of jobs of the long form."""

import asyncio
import os
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import suppress

import pytest

from mita.errors import StoreError
from mita.model.gate import Gate, StoredLimit
from mita.model.job import Claim, NewJob
from mita.model.outcome import Held, RescheduleJob
from mita.model.time import When
from mita.stores.nats import NatsStore, control
from mita.testing.contract.given import LONG, job, look, succeed

from .mini_worker import QUEUE, RUNS, Book, all_ended, check, plan, retry, sweep, work
from .servers import Cluster, fresh_namespace
from .test_pause import check_barrier

JOBS = int(os.environ.get("MITA_CLUSTER_JOBS", "20000"))
SHORT_FORM = 300

pytestmark = pytest.mark.timeout(900)
soak = pytest.mark.skipif(
    "MITA_SOAK" not in os.environ, reason="three servers under load want more than two cores"
)


@pytest.fixture(scope="module")
def calm() -> Iterator[Cluster]:
    """One cluster for all tests that kill none of its servers."""
    cluster = Cluster().start()
    yield cluster
    cluster.remove()


@pytest.fixture
def doomed() -> Iterator[Cluster]:
    cluster = Cluster().start()
    yield cluster
    cluster.remove()


async def opened(cluster: Cluster, namespace: str) -> NatsStore:
    """The cluster does not answer until it has elected its leader."""
    deadline = time.monotonic() + 120
    while time.monotonic() < deadline:
        store = NatsStore(cluster.urls, namespace=namespace, replicas=3)
        try:
            async with asyncio.timeout(2):
                await store.open()
        except (StoreError, TimeoutError):
            await store.close()
            await asyncio.sleep(0.05)
        else:
            return store
    raise AssertionError("the cluster does not come up")


@pytest.fixture
async def stores(calm: Cluster) -> AsyncIterator[list[NatsStore]]:
    namespace = fresh_namespace()
    stores = [await opened(calm, namespace) for _ in range(3)]
    yield stores
    for store in stores:
        await store.close()


@pytest.fixture
async def doomed_stores(doomed: Cluster) -> AsyncIterator[list[NatsStore]]:
    stores = [await opened(doomed, "mita") for _ in range(3)]
    yield stores
    for store in stores:
        await store.close()


async def leader(store: NatsStore) -> str:
    info = await store.context.wire.api(f"STREAM.INFO.{store._subjects.stream}")
    return str(info["cluster"]["leader"])


async def step_down(store: NatsStore, source: tuple[str, int] | None = None) -> None:
    """Have the leader of the stream, or of one of its consumers, step down."""
    where = f"STREAM.LEADER.STEPDOWN.{store._subjects.stream}"
    if source is not None:
        where = (
            f"CONSUMER.LEADER.STEPDOWN.{store._subjects.stream}.{store._subjects.consumer(*source)}"
        )
    assert (await store.context.wire.api(where)).get("success")


async def test_a_store_reads_what_it_wrote_from_every_replica(
    stores: list[NatsStore],
) -> None:
    store, twin, _ = stores
    for _ in range(20):
        new = job(queue=QUEUE)
        await store.enqueue([new])
        assert (await look(store, new.id)).id == new.id
        [claim] = await claimed(store)
        assert await twin.extend([claim], LONG) == [Held.HELD], (
            "a keeper's own connection may meet another replica"
        )
        assert await store.settle([succeed(claim)]) == [True]


async def claimed(store: NatsStore) -> list[Claim]:
    """An election may take longer than a claim waits; then `again` says that one should claim again
    soon."""
    for _ in range(100):
        turn = await store.claim([QUEUE], 1, LONG, "w")
        if turn.claims:
            return list(turn.claims)
        assert turn.again is not None, "nothing to come, with a job in the source"
        await asyncio.sleep(turn.again / 1000)
    raise AssertionError("it never came")


async def test_an_id_that_is_enqueued_by_several_at_once_is_one_job(
    stores: list[NatsStore],
) -> None:
    for store in stores:
        await store.enqueue([job()])  # the source is known to all: the next go out without a look
    for _ in range(20):
        new = job()
        receipts = await asyncio.gather(
            *(store.enqueue([new]) for store in stores for _ in range(2))
        )
        assert sum(receipt.created for [receipt] in receipts) == 1
    assert (await stores[0].queues())[0].ready == len(stores) + 20


async def test_a_consumer_that_elects_its_leader_is_not_empty(stores: list[NatsStore]) -> None:
    """I9: a consumer does not answer then, and a worker that took this for an empty one would
    sleep."""
    store = stores[0]
    for _ in range(8):
        new = job(queue=QUEUE)
        await store.enqueue([new])
        await step_down(store, (QUEUE, 5))
        [claim] = await claimed(store)
        assert await store.settle([succeed(claim)]) == [True]


async def test_a_pause_is_a_barrier_on_a_cluster(
    stores: list[NatsStore], monkeypatch: pytest.MonkeyPatch
) -> None:
    for _ in range(5):
        await check_barrier(stores[0], stores[1], monkeypatch)


async def test_limits_hold_on_a_cluster(
    stores: list[NatsStore], monkeypatch: pytest.MonkeyPatch
) -> None:
    """I5: three stores that read from any replica never start more than a key, a rate or a queue
    allows, and all jobs run."""
    monkeypatch.setattr(control, "LIMIT_BARRIER_S", 0.1)
    gates = (Gate("gpu", 2), Gate("host", None, 20_000, 3))
    made = [job(queue=QUEUE, resource=f"k{n % 3}", gates=gates) for n in range(20)]
    made += [job(queue=QUEUE) for _ in range(20)]
    await stores[0].enqueue(made)
    await stores[1].limit([QUEUE], None, StoredLimit(concurrency=3))
    running: set[str] = set()
    gpu: set[str] = set()
    starts: list[int] = []
    done: set[str] = set()

    async def worker(store: NatsStore, name: str) -> None:
        while len(done) < len(made):
            turn = await store.claim([QUEUE], 4, LONG, name)
            for one in turn.claims:
                running.add(one.id)
                gpu.update([one.id] if one.gates else [])
                starts.extend([one.at] if one.gates else [])
            assert len(running) <= 3
            assert len(gpu) <= 2
            await asyncio.sleep(0.005)
            ids = {one.id for one in turn.claims}
            running.difference_update(ids)
            gpu.difference_update(ids)
            done.update(ids)
            assert all(await store.settle([succeed(one) for one in turn.claims]))
            if not turn.claims:
                await store.wait([QUEUE], 0.05 if turn.again is None else turn.again / 1000)

    await asyncio.gather(*(worker(store, f"w{n}") for n, store in enumerate(stores)))
    starts.sort()
    for at in range(len(starts) - 4):  # 5 starts: 3 at once, and one for each 20 ms
        assert starts[at + 4] - starts[at] >= 20
    assert [view.holders for view in await stores[0].resources()] == []


async def test_leaders_step_down_in_the_middle_of_the_work(stores: list[NatsStore]) -> None:
    """I1 I6 I8 I12"""

    async def trouble() -> None:
        for source in (None, (QUEUE, 5), None, (QUEUE, 9)):
            await asyncio.sleep(0.3)
            with suppress(StoreError, AssertionError):  # the leader is changing
                await step_down(stores[2], source)

    await through_trouble(stores, SHORT_FORM, trouble)


async def through_trouble(
    stores: list[NatsStore], n: int, trouble: Callable[[], Awaitable[None]]
) -> None:
    """Jobs are enqueued, run, and rescheduled by workers and by the test, while the servers are
    disturbed."""
    jobs = plan(n, keys=20)
    book, stop = Book(), asyncio.Event()
    began = time.monotonic()
    workers = [
        asyncio.ensure_future(work(store, f"w{at}", book, stop))
        for at, store in enumerate(stores[:2])
    ]
    workers.append(asyncio.ensure_future(sweep(stores[2], book, stop)))
    await put_in(stores[2], jobs[: n // 2], book)
    troubled = asyncio.ensure_future(trouble())
    moved = [new.id for new in jobs[: n // 2 : 20]]
    await retry(lambda: stores[2].amend(moved, RescheduleJob(When(1500))), book)
    await put_in(stores[2], jobs[n // 2 :], book)
    await troubled
    await all_ended(stores[2], [new.id for new in jobs], within=600)
    took = time.monotonic() - began
    stop.set()
    await asyncio.gather(*workers)
    await check(stores[2], jobs, book, moved=moved)
    extra = sum(book.runs.values()) - sum(RUNS[new.task] for new in jobs)
    print(
        f"{n} jobs in {took:.0f} s: runs beyond the planned {extra}, stale {book.stale}, "
        f"troubles {dict(book.troubles)}"
    )


async def put_in(store: NatsStore, jobs: list[NewJob], book: Book) -> None:
    for at in range(0, len(jobs), 1000):
        await retry(lambda at=at: store.enqueue(jobs[at : at + 1000]), book)  # type: ignore[misc]


@soak
async def test_the_leader_is_killed_in_the_middle_of_the_work(
    doomed: Cluster, doomed_stores: list[NatsStore]
) -> None:
    """I1 I6 I8 I12"""

    async def trouble() -> None:
        first = doomed.servers[int((await leader(doomed_stores[2]))[1:])]
        first.kill()
        await asyncio.sleep(15)  # for this time the other servers are alone
        first.start()

    await through_trouble(doomed_stores, JOBS, trouble)


@soak
async def test_schedules_are_on_all_servers(
    doomed: Cluster, doomed_stores: list[NatsStore]
) -> None:
    """I1 I8"""
    store = doomed_stores[0]
    new = job(queue=QUEUE, when=When(2500))
    await store.enqueue([new])
    doomed.servers[int((await leader(store))[1:])].kill()
    claims = []
    for _ in range(400):
        with suppress(StoreError):
            claims = (await store.claim([QUEUE], 1, LONG, "w")).claims
            if claims:
                break
        await asyncio.sleep(0.05)
    assert [claim.id for claim in claims] == [new.id]
    assert claims[0].at >= claims[0].due
