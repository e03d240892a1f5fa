"""Handlers that sleep or wait for signals, with processes that are killed."""

import asyncio
from collections import defaultdict
from collections.abc import Sequence
from pathlib import Path

import pytest

from mita import Answer
from mita.model.job import State
from mita.model.outcome import CancelJob
from mita.model.time import HOUR
from tests.waiting import until

from . import menu
from .checker import Expect
from .harness import NO_LOSS_LEASE_S, Asked, Process, Scene, scaled
from .program import SIGNALS_OF_ONE_PROCESS, open_gate

WORKERS = 3
SIGNALS_OF_A_JOB = 4
DURABLE = Expect(reschedules=None)  # how often it waits depends on when its signals come
LONG_S = 86_400.0


def asking(scene: Scene, key: str, signals: int = SIGNALS_OF_A_JOB) -> Asked:
    return Asked(scene.works.asking.call(scene.number(), key, signals), DURABLE)


def asking_once(scene: Scene) -> Asked:
    return Asked(scene.works.asking_once.call(scene.number()), DURABLE)


# ---------------------------------------------------------------- they cost nothing


def use_of(process: Process) -> tuple[int, int]:
    """The threads and the open files of a process, connections among them."""
    proc = Path(f"/proc/{process.pid}")
    return len(list((proc / "task").iterdir())), len(list((proc / "fd").iterdir()))


async def scheduled(scene: Scene) -> int:
    counts = await scene.app.counts()
    return sum(queue["scheduled"] + queue["waiting"] for queue in counts.values())


@pytest.mark.timeout(600)
async def test_handlers_that_sleep_or_wait_cost_nothing(scene: Scene) -> None:
    """No slot, thread, connection, lease or key: a worker with two slots runs other jobs with their
    resource keys beside them."""
    many, scene.lease = scaled(40, 1000), 4 * NO_LOSS_LEASE_S
    worker = scene.worker(concurrency=2)
    await scene.enqueue([menu.nap(scene) for _ in range(10)])
    await scene.finished()
    threads, files = use_of(worker)
    ended = Expect(state=State.CANCELLED, reschedules=1)
    sleepers = await scene.enqueue(
        [
            Asked(scene.works.asleep.call(scene.number(), f"k{n}", LONG_S), ended)
            for n in range(many)
        ]
    )
    waiters = await scene.enqueue([asking(scene, f"w{n}", 1) for n in range(many)])
    await until(
        lambda: _all_scheduled(scene, 2 * many), "all of them sleep or wait", scaled(120, 500)
    )
    store = await scene.store()
    jobs = await store.find([*sleepers, *waiters])
    assert {job.state for job in jobs if job is not None} == {State.QUEUED}
    assert {job.lease_until for job in jobs if job is not None} == {None}
    assert await store.resources() == []
    more_threads, more_files = (
        now - before for now, before in zip(use_of(worker), (threads, files), strict=True)
    )
    assert more_threads < 10
    assert more_files < 10
    naps = await scene.enqueue([menu.keyed(scene, f"{'kw'[n % 2]}{n}", 5) for n in range(20)])
    await until(lambda: _all_ended(scene, naps), "other jobs run beside them")
    assert await scheduled(scene) == 2 * many
    scene.tell(f"{2 * many:,} asleep or waiting: {more_threads} threads, {more_files} files more")
    for n, id in enumerate(waiters):
        assert await scene.app.signal(id, "s0", n) is Answer.DONE
    assert await store.amend(sleepers, CancelJob(HOUR)) == [Answer.DONE] * many
    await scene.finished(within=scaled(60, 300))
    await scene.stop(worker)
    await scene.check()
    check_deliveries(scene, waiters, 1)


async def _all_scheduled(scene: Scene, many: int) -> bool:
    return await scheduled(scene) == many


async def _all_ended(scene: Scene, ids: Sequence[str]) -> bool:
    found = await (await scene.store()).find(ids)
    return all(job is not None and job.state is State.SUCCEEDED for job in found)


# ---------------------------------------------------------------- exactly once


def check_deliveries(scene: Scene, ids: Sequence[str], signals: int) -> None:
    """Each job got each of its signals, and the same value in each of its runs."""
    values = defaultdict[tuple[str, int], set[int]](set)
    for line in scene.lines("delivered"):
        place, value = line.how.split(":")
        values[line.job, int(place)].add(int(value))
    expected = {(id, place) for id in ids for place in range(signals)}
    assert set(values) == expected
    assert {each: found for each, found in values.items() if len(found) != 1} == {}


def check_answers(scene: Scene, killed: set[int]) -> None:
    """No signal was accepted twice, and a job got the value that was accepted. The answer to a
    signal is missing only if its process was killed."""
    accepted = defaultdict[tuple[str, str], list[str]](list)
    for line in scene.lines("signalled"):
        place, value = line.how.split(":")
        assert line.text in (Answer.DONE, Answer.TAKEN, Answer.TOO_LATE)
        if line.text == Answer.DONE:
            accepted[line.job, place].append(value)
    assert max(len(values) for values in accepted.values()) == 1
    for line in scene.lines("delivered"):
        place, value = line.how.split(":")
        if accepted[line.job, place]:
            assert [value] == accepted[line.job, place]
        else:
            assert int(value) // SIGNALS_OF_ONE_PROCESS in killed


async def kill_now_and_then(scene: Scene, pool: list[Process], kills: int) -> None:
    """Kill workers, but not the first: it lives long enough to take over what the others lose."""
    for _ in range(kills):
        await asyncio.sleep(scene.random.uniform(0.1, 0.5))  # the time between two kills
        victim = scene.random.randrange(1, len(pool))
        await scene.kill(pool[victim])
        pool[victim] = scene.worker(concurrency=8, name=f"worker-{victim}")


@pytest.mark.timeout(3600)
async def test_signals_are_delivered_exactly_once_while_processes_are_killed(scene: Scene) -> None:
    """Half of the signals come before the first run of their job. Workers and senders are killed; a
    sender that was killed sends all its signals again."""
    scene.lease *= 2  # of busy workers only the killed ones may lose their leases
    many = scaled(25, 2500)
    ids = await scene.enqueue([asking(scene, f"k{n % 50}") for n in range(many)])
    signals = [(id, place) for id in ids for place in range(SIGNALS_OF_A_JOB)]
    scene.random.shuffle(signals)
    early, late = signals[: len(signals) // 2], signals[len(signals) // 2 :]
    first = scene.start("signaller", signals=early)
    assert await first.gone(within=scaled(60, 600)) == 0
    pool = [scene.worker(concurrency=8, name=f"worker-{slot}") for slot in range(WORKERS)]
    await scene.ready(*pool)
    killed: set[int] = set()
    for _ in range(scaled(1, 5)):
        sender = scene.start("signaller", signals=late, ms=scaled(10, 5))
        await until(
            lambda: len(scene.lines("signalled", who=sender.who)) > 5,  # noqa: B023
            "some are sent",
        )
        await kill_now_and_then(scene, pool, scaled(2, 20))
        if sender.code is None:
            await scene.kill(sender)
            killed.add(sender.who)
    last = scene.start("signaller", signals=late)
    await kill_now_and_then(scene, pool, scaled(2, 20))
    assert await last.gone(within=scaled(60, 900)) == 0
    await scene.finished(within=scaled(60, 300))
    await scene.stop(*pool)
    await scene.check()
    check_deliveries(scene, ids, SIGNALS_OF_A_JOB)
    check_answers(scene, killed)


# ---------------------------------------------------------------- kill points


async def recovered(scene: Scene, ids: Sequence[str]) -> None:
    successor = scene.worker(concurrency=50)
    await scene.finished()
    await scene.stop(successor)
    await scene.check()
    check_deliveries(scene, ids, 1)


AROUND_A_WAIT = ("remember.before", "remember.after", "wait.before", "wait.after")


async def died_at_its_wait(scene: Scene, point: str) -> None:
    """A worker dies around the wait of its handler, and the signal comes after that."""
    ids: list[str] = []
    for _ in range(scaled(1, 10)):
        ids += await scene.enqueue([asking_once(scene) for _ in range(5)])
        await scene.died(scene.worker(point=point, concurrency=5))
    assert [await scene.app.signal(id, "s0", n) for n, id in enumerate(ids)] == [Answer.DONE] * len(
        ids
    )
    await recovered(scene, ids)


@pytest.mark.parametrize("point", AROUND_A_WAIT)
async def test_a_worker_that_dies_around_its_wait_loses_no_signal(scene: Scene, point: str) -> None:
    """I1 I3 I12"""
    await died_at_its_wait(scene, point)


@pytest.mark.parametrize("point", ["sql.store_once", "sql.settle_many"])
async def test_a_worker_that_dies_inside_the_transaction_of_its_wait_loses_no_signal(
    file_scene: Scene, point: str
) -> None:
    """I1 I3 I12"""
    await died_at_its_wait(file_scene, point)


async def died_signalling(scene: Scene, point: str) -> None:
    """A sender dies at its first signal. Another one sends all of them again."""
    ids = await scene.enqueue([asking_once(scene) for _ in range(5)])
    worker = scene.worker(concurrency=5)
    await until(lambda: _all_scheduled(scene, 5), "all of them wait")
    signals = [(id, 0) for id in ids]
    dead = scene.start("signaller", signals=signals, point=point)
    await scene.died(dead)
    sender = scene.start("signaller", signals=signals)
    assert await sender.gone() == 0
    await recovered(scene, ids)
    await scene.stop(worker)
    answers = [line.text for line in scene.lines("signalled", who=sender.who)]
    stored = point in ("signal.after", "nats.ticket")
    late = {Answer.TAKEN, Answer.TOO_LATE} if stored else {Answer.DONE}
    assert answers[0] in late
    assert answers[1:] == [Answer.DONE] * 4
    check_answers(scene, {dead.who})


@pytest.mark.parametrize("point", ["signal.before", "signal.after"])
async def test_a_sender_that_dies_around_its_signal_sends_it_once(scene: Scene, point: str) -> None:
    """I1: the job goes on with the first signal, and the second is refused."""
    await died_signalling(scene, point)


async def test_a_sender_that_dies_inside_its_transaction_has_sent_nothing(
    file_scene: Scene,
) -> None:
    await died_signalling(file_scene, "sql.amend_signal")


# ---------------------------------------------------------------- a value that all jobs share


async def test_of_many_processes_one_computes_a_shared_value_and_another_if_it_dies(
    scene: Scene,
) -> None:
    """`once(scope="global")`: the process that computes the value is killed. One of the others
    computes it when the lease of the dead one is over, and all of them get that value."""
    first = scene.worker(concurrency=3)
    jobs = [Asked(scene.works.sharing.call(scene.number()), Expect()) for _ in range(12)]
    await scene.enqueue(jobs)
    await until(lambda: len(scene.lines("start", who=first.who)) == 3, "three of them ask")
    await until(lambda: scene.lines("computed", who=first.who), "one of them computes")
    open_gate(scene.gate("open"))
    others = [scene.worker(gate="open", concurrency=4) for _ in range(2)]
    await scene.ready(*others)
    await scene.kill(first)
    await scene.finished()
    await scene.stop(*others)
    await scene.check()
    computed = scene.lines("computed")
    assert [line.who for line in computed].count(first.who) == 1
    assert len(computed) == 2
    assert {line.how for line in scene.lines("shared")} == {str(computed[1].n)}
