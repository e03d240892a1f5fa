"""Limits over several processes: rates, several keys, caps of queues, and fair shares."""

import asyncio
import time
from collections import Counter, defaultdict
from collections.abc import Sequence

from mita import Rate
from tests.waiting import until

from . import menu
from .harness import Asked, Process, Scene, scaled
from .jobs import KEY_RATE, RATE

WORKERS = 4
WINDOWS_MS = (100, 1000, 5000)


def starts_by_key(scene: Scene) -> dict[str | None, list[int]]:
    """When runs were claimed, on the store's clock, by their resource key."""
    found: dict[str | None, dict[tuple[str, int], int]] = defaultdict(dict)
    for line in scene.lines("start"):
        found[line.key][line.job, line.token] = line.at
    return {key: sorted(starts.values()) for key, starts in found.items()}


def most_starts(starts: Sequence[int], window_ms: int) -> int:
    """The largest number of starts in any interval of this length."""
    most = first = 0
    for last, at in enumerate(starts):
        while at - starts[first] > window_ms:
            first += 1
        most = max(most, last - first + 1)
    return most


def check_rate(starts: Sequence[int], rate: Rate) -> None:
    """In no interval there are more starts than the rate promises."""
    for window_ms in WINDOWS_MS:
        allowed = window_ms * 1000 // rate.interval_us + rate.burst
        assert most_starts(starts, window_ms) <= allowed, f"in {window_ms} ms"


async def workers(scene: Scene, concurrency: int) -> list[Process]:
    pool = [scene.worker(name=f"worker-{n}", concurrency=concurrency) for n in range(WORKERS)]
    await scene.ready(*pool)
    return pool


def check_mean(scene: Scene, starts: Sequence[int]) -> None:
    """Report how many of these starts there were in a second, without the burst. At full size that
    is what the rate promises, within 3 %."""
    mean = (len(starts) - RATE.burst) * 1000 / (starts[-1] - starts[0])
    scene.tell(f"{len(starts):,} starts at {mean:.1f} per second, of {RATE.limit}")
    if len(starts) >= 20_000:
        assert abs(mean - RATE.limit) <= 0.03 * RATE.limit


async def all_finished(scene: Scene, jobs: int, since: float) -> None:
    """Wait until these jobs of one rate have ended; the first started at `since`. They cannot end
    before the rate allows it. Until their handlers have ended nothing is counted: to count many
    jobs costs a store as much as to run them, and then a rate that is late gets later."""
    await asyncio.sleep(max(0.0, since + (jobs - RATE.burst) / RATE.limit - time.monotonic()))
    within = 90 + jobs / 100
    await until(lambda: has_ended(scene, jobs), "all handlers end", within)
    await scene.finished(within)


async def has_ended(scene: Scene, jobs: int) -> bool:
    """Whether so many jobs have a run whose handler has ended. To look costs something too, so it
    waits a moment first."""
    await asyncio.sleep(0.25)
    return len({line.job for line in scene.record.lines("end")}) >= jobs


async def test_no_interval_has_more_starts_than_the_rate(scene: Scene) -> None:
    """Four workers share one rate. Its mean is kept too: what it promises is also used."""
    jobs = scaled(500, 20_000)
    scene.lease *= 5
    await scene.enqueue([menu.rated(scene) for _ in range(jobs)])
    since = time.monotonic()
    pool = await workers(scene, concurrency=50)
    await all_finished(scene, jobs, since)
    await scene.stop(*pool)
    [starts] = starts_by_key(scene).values()
    assert len(starts) == jobs
    check_rate(starts, RATE)
    check_mean(scene, starts)
    await scene.check()


async def test_a_rate_holds_while_workers_are_killed(scene: Scene) -> None:
    """A worker that dies takes no more tokens with it than it had claimed, and gives none twice. So
    the mean is kept too. Each worker is killed at work: none before all four have started, and at
    full size not so soon that none lives long enough to sweep."""
    jobs, kills, pace = scaled(500, 20_000), scaled(4, 60), scaled(1, 3)
    await scene.enqueue([menu.rated(scene, 20) for _ in range(jobs)])
    since = time.monotonic()
    pool = await workers(scene, concurrency=10)
    for n in range(kills):
        await asyncio.sleep(scene.random.uniform(0.2, 0.5) * pace)
        await scene.kill(pool[n % WORKERS])
        pool[n % WORKERS] = scene.worker(concurrency=10, name=f"worker-{n % WORKERS}")
        await scene.ready(*pool)
    await all_finished(scene, jobs, since)
    await scene.stop(*pool)
    [starts] = starts_by_key(scene).values()
    check_rate(starts, RATE)
    check_mean(scene, starts)
    await scene.check()


async def test_each_key_has_its_own_rate_and_limit(scene: Scene) -> None:
    """Rates, limits and plain jobs side by side, with a kill in the middle."""
    asked: list[Asked] = [
        menu.rated_key(scene, f"k{scene.random.randrange(5)}", 30) for _ in range(scaled(150, 3000))
    ]
    asked += [
        menu.two_keys(scene, f"k{scene.random.randrange(5)}", 20) for _ in range(scaled(60, 1000))
    ]
    asked += menu.mixed(scene, scaled(60, 1000))
    scene.random.shuffle(asked)
    await scene.enqueue(asked)
    pool = await workers(scene, concurrency=10)
    await asyncio.sleep(0.5)
    await scene.kill(pool.pop())
    await scene.finished(within=120 + len(asked) / 20)
    await scene.stop(*pool)
    rated = [line for line in scene.lines("start") if line.task == "rated_key"]
    for key in {line.key for line in rated}:
        claims = {(line.job, line.token): line.at for line in rated if line.key == key}
        check_rate(sorted(claims.values()), KEY_RATE)
    await scene.check()


async def test_a_limited_queue_never_runs_more_jobs_at_once(scene: Scene) -> None:
    """The cap of a queue holds over all workers, and follows when it is changed."""
    scene.lease *= 5
    await scene.app.limit_queue("default", concurrency=5)
    await scene.enqueue([menu.nap(scene, 20) for _ in range(scaled(150, 3000))])
    pool = await workers(scene, concurrency=10)
    await scene.started(*range(1, 31))
    await scene.app.limit_queue("default", concurrency=2)
    await scene.finished(within=120)
    await scene.stop(*pool)
    assert most_at_once(scene) <= 5
    await scene.check()


def most_at_once(scene: Scene) -> int:
    """The most handlers that ran at one time, by the order of the lines in the record."""
    most = running = 0
    for line in scene.record.lines("start", "end"):
        running += 1 if line.what == "start" else -1
        most = max(most, running)
    return most


async def test_a_large_tenant_does_not_hold_up_the_small_ones(scene: Scene) -> None:
    """Twenty tenants with few jobs finish long before one that came first with many."""
    large, small = scaled(600, 50_000), scaled(6, 50)
    scene.lease *= 5
    await scene.enqueue([menu.fair(scene, "large") for _ in range(large)])
    await scene.enqueue([menu.fair(scene, f"small-{n}") for n in range(20) for _ in range(small)])
    pool = await workers(scene, concurrency=10)
    await scene.finished(within=120 + large / 100)
    await scene.stop(*pool)
    seen: Counter[str] = Counter()
    for line in sorted(scene.lines("start"), key=lambda line: line.at):
        seen["large" if line.n <= large else "small"] += 1
        if seen["small"] == 20 * small:
            break
    scene.tell(f"{seen['small']} jobs of small tenants started beside {seen['large']} of the large")
    fair_share = small + WORKERS * 10 * 2  # one turn in 21, and what workers hold already
    assert seen["large"] <= 1.3 * fair_share + 40
    await scene.check()
