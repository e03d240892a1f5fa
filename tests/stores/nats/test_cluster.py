"""Three servers, three copies, and the leader is killed in the middle of the work. `MITA_CLUSTER_JOBS=n` for more jobs."""

import asyncio
import os
from collections.abc import AsyncIterator, Iterator
from contextlib import suppress

import pytest

from mita.errors import StoreError
from mita.model.outcome import Held
from mita.model.time import When
from mita.stores.nats import NatsStore
from mita.testing.contract.given import LONG, job, look, succeed

from .crew import QUEUE, Book, all_ended, check, insist, plan, sweep, work
from .servers import Cluster

JOBS = int(os.environ.get("MITA_CLUSTER_JOBS", "2000"))

pytestmark = [
    pytest.mark.timeout(300),
    pytest.mark.skipif("MITA_SOAK" not in os.environ, reason="three servers and their workers want more than two cores"),
]


@pytest.fixture
def cluster() -> Iterator[Cluster]:
    cluster = Cluster().start()
    yield cluster
    cluster.remove()


async def opened(cluster: Cluster) -> NatsStore:
    """The cluster needs a moment to choose who leads it."""
    for _ in range(100):
        store = NatsStore(cluster.urls, replicas=3)
        try:
            await store.open()
        except StoreError:
            await asyncio.sleep(0.2)
        else:
            return store
    raise AssertionError("the cluster does not come up")


@pytest.fixture
async def stores(cluster: Cluster) -> AsyncIterator[list[NatsStore]]:
    stores = [await opened(cluster) for _ in range(3)]
    yield stores
    for store in stores:
        await store.close()


async def leader(store: NatsStore) -> str:
    info = await store._in.wire.api(f"STREAM.INFO.{store._subjects.stream}")
    return str(info["cluster"]["leader"])


async def test_the_leader_is_killed_in_the_middle_of_the_work(cluster: Cluster, stores: list[NatsStore]) -> None:
    """I1 I6 I8 I12"""
    jobs = plan(JOBS)
    book, stop = Book(), asyncio.Event()
    crew = [asyncio.ensure_future(work(store, f"w{at}", book, stop)) for at, store in enumerate(stores[:2])]
    crew.append(asyncio.ensure_future(sweep(stores[2], book, stop)))
    for at in range(0, JOBS // 2, 1000):
        await insist(lambda at=at: stores[2].enqueue(jobs[at : min(at + 1000, JOBS // 2)]), book)  # type: ignore[misc]
    first = cluster.servers[int((await leader(stores[2]))[1:])]
    first.kill()
    for at in range(JOBS // 2, JOBS, 1000):
        await insist(lambda at=at: stores[2].enqueue(jobs[at : at + 1000]), book)  # type: ignore[misc]
    await asyncio.sleep(2)
    first.start()
    await all_ended(stores[2], [new.id for new in jobs], within=240)
    stop.set()
    await asyncio.gather(*crew)
    await check(stores[2], jobs, book)
    extra = sum(book.runs.values()) - sum({"plain": 1, "retry": 3, "move": 3, "fail": 2}[new.task] for new in jobs)
    print(f"{JOBS} jobs: extra runs {extra}, stale {book.stale}, troubles {dict(book.troubles)}")


async def test_what_one_has_written_it_reads_whichever_replica_answers(stores: list[NatsStore]) -> None:
    store, twin, _ = stores
    for _ in range(30):
        new = job(queue=QUEUE)
        await store.enqueue([new])
        assert (await look(store, new.id)).id == new.id
        [claim] = (await store.claim([QUEUE], 1, LONG, "w")).claims
        assert await twin.extend([claim], LONG) == [Held.HELD], "a keeper's own connection may meet another replica"
        assert await store.settle([succeed(claim)]) == [True]


async def test_schedules_are_kept_by_all(cluster: Cluster, stores: list[NatsStore]) -> None:
    """I1 I8"""
    store = stores[0]
    new = job(queue=QUEUE, when=When(2500))
    await store.enqueue([new])
    at = int((await leader(store))[1:])
    cluster.servers[at].kill()
    claims = []
    for _ in range(400):
        with suppress(StoreError):
            claims = (await store.claim([QUEUE], 1, LONG, "w")).claims
            if claims:
                break
        await asyncio.sleep(0.05)
    assert [claim.id for claim in claims] == [new.id]
    assert claims[0].at >= claims[0].due
