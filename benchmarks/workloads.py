"""The workloads, by name. Each returns the figures of one store."""

from collections.abc import Callable, Iterator

from msgspec import Struct
from msgspec.structs import replace

from . import special
from .bench import Bench, Drain
from .figures import Figure

BULK_MOST = 400_000
_FIRING = 10.0  # seconds
# these stores read all repeats to find the due ones
_FEWER_REPEATS = {"memory": 1000, "nats": 500}
_RAW_MOST = 400_000
_RAW = (
    3  # times the jobs of a plain drain, because the raw loop is too fast to be measured with fewer
)


class Workload(Struct, frozen=True):
    """`about` is for `--list`; `processes`: whether it needs a store that processes can share;
    `only`: the one store that it is about."""

    about: str
    run: Callable[[Bench], Iterator[Figure]]
    processes: bool = False
    only: str = ""


def raw(bench: Bench) -> Iterator[Figure]:
    yield from bench.raw(_raw_jobs(bench))


def _raw_jobs(bench: Bench) -> int:
    return min(_RAW * bench.sizes.drain, _RAW_MOST)


def enqueue(bench: Bench) -> Iterator[Figure]:
    yield bench.clocked(bench.figure("enqueue", "enqueue one by one"), "one")


def bulk(bench: Bench) -> Iterator[Figure]:
    yield bench.clocked(bench.figure("bulk", "enqueue in bulk"), "bulk", BULK_MOST)


def drain(bench: Bench) -> Iterator[Figure]:
    want = Drain(jobs=bench.sizes.drain, repeat=bench.sizes.repeat)
    yield bench.drain_by_turns(
        bench.figure("drain", "drain, async handlers"), want, _raw_jobs(bench)
    )


def sync(bench: Bench) -> Iterator[Figure]:
    want = Drain(jobs=bench.sizes.part(0.5), task="sync", repeat=bench.sizes.repeat)
    yield bench.drain(bench.figure("sync", "drain, sync handlers"), want)


def wait(bench: Bench) -> Iterator[Figure]:
    want = Drain(jobs=bench.sizes.part(0.25), task="wait", like_raw=False)
    yield bench.drain(bench.figure("wait", "drain, handlers wait 5 ms"), want)


def pickup(bench: Bench) -> Iterator[Figure]:
    yield bench.paced(
        bench.figure("pickup", "idle pick-up", unit="ms"), "pickup", bench.sizes.pickups
    )


def timer(bench: Bench) -> Iterator[Figure]:
    yield bench.paced(
        bench.figure("timer", "timer lateness", unit="ms"), "timer", bench.sizes.timers
    )


def repeats(bench: Bench) -> Iterator[Figure]:
    number = _FEWER_REPEATS.get(bench.store, bench.sizes.repeats)
    figure = bench.figure("repeats", f"{number:,} repeats of 1 s: lateness", unit="ms")
    yield bench.repeats(figure, number, _FIRING)


def scheduled(bench: Bench) -> Iterator[Figure]:
    """Each drain with scheduled jobs is compared with drains without them, of the same minute."""
    for waiting in bench.sizes.waiting:
        figure = bench.figure("scheduled", f"drain beside {waiting:,} scheduled")
        want = Drain(jobs=bench.sizes.drain, scheduled=waiting, repeat=bench.sizes.repeat)
        yield (
            bench.drain_beside(figure, want, replace(want, scheduled=0))
            if waiting
            else bench.drain(figure, want)
        )


def ready(bench: Bench) -> Iterator[Figure]:
    yield bench.drain(
        bench.figure("ready", f"drain of {bench.sizes.ready:,} ready"),
        Drain(jobs=bench.sizes.ready),
    )


def processes(bench: Bench) -> Iterator[Figure]:
    """The first figure is a single process, not pinned to a core; the others are compared with
    it."""
    alone = 0.0
    for number in bench.sizes.processes:
        figure = bench.figure(
            "processes",
            f"drain, {number} worker process{'es' if number > 1 else ''}",
            processes=number,
        )
        bench.drain(figure, Drain(jobs=bench.sizes.drain, repeat=bench.sizes.repeat))
        alone = alone or figure.value or 0.0
        figure.against = round(figure.value / alone, 3) if figure.value and alone else None
        yield figure


def watched(bench: Bench) -> Iterator[Figure]:
    """The first drain has no metrics; the others are compared with it, in several short rounds."""
    wants = [
        (
            bench.figure("watched", f"drain with {', '.join(names) or 'no metrics'}"),
            Drain(jobs=bench.sizes.part(0.5), watched=" ".join(names)),
        )
        for names in ((), ("metrics",), ("metrics", "listener"), ("metrics", "events"))
    ]
    yield from bench.side_by_side(wants, 2 * bench.sizes.repeat - 1)


def memory(bench: Bench) -> Iterator[Figure]:
    """Memory in the drain with the most ready jobs, which is measured now unless it was before."""
    measured = bench.report.find(bench.store, "ready") or list(ready(bench))
    first, half, last = measured[-1].cost.worker_rss if measured[-1].cost else (0.0, 0.0, 0.0)
    name = f"worker memory over {measured[-1].jobs:,} jobs"
    figure = bench.figure(
        "memory", name, unit="MB", value=last, values=[first, half, last], jobs=measured[-1].jobs
    )
    figure.cost, figure.noise = measured[-1].cost, measured[-1].noise
    yield figure.failed(*measured[-1].problems)


def bloat(bench: Bench) -> Iterator[Figure]:
    """Claims alone are timed; the figure is their rate at the end, beside that of the beginning."""
    jobs = bench.sizes.drain
    for name, part, task, beside in (
        ("claims after {:,} jobs", jobs, "noop", ""),
        ("the same beside an old snapshot, {:,}", jobs // 4, "noop", "snapshot"),
        ("the same with keys, {:,}", jobs // 4, "keyed", "snapshot"),
    ):
        yield bench.bloat(bench.figure("bloat", name.format(part)), part, task, beside)


WORKLOADS: dict[str, Workload] = {
    "enqueue": Workload("enqueue one by one, each call awaited", enqueue),
    "bulk": Workload("enqueue in bulk, 1,000 jobs per call", bulk),
    "drain": Workload("drain, async handlers that do nothing", drain),
    "sync": Workload("drain, plain functions on threads", sync),
    "wait": Workload("drain, async handlers that wait 5 ms", wait),
    "pickup": Workload("idle worker, single jobs from another process: enqueue to start", pickup),
    "timer": Workload("jobs that are due in 1 to 3 s: from the due time to the start", timer),
    "repeats": Workload(
        "10,000 repeats of one second on one scheduler: fire time to job in the store", repeats
    ),
    "scheduled": Workload("drain beside up to 1,000,000 scheduled jobs", scheduled),
    "ready": Workload(
        "drain of 1,000,000 ready jobs, with the cost per job as they get fewer", ready
    ),
    "retries": Workload("jobs that fail once and then succeed", special.retries),
    "reschedules": Workload("jobs that reschedule themselves once", special.reschedules),
    "keys": Workload("1,000 resource keys, one job at a time for each; 2 workers", special.keys),
    "kept": Workload("drain with results kept for an hour, beside one without", special.kept),
    "rates": Workload("jobs with a rate limit that is not reached", special.rates),
    "fair": Workload("fair shares of 100 tenants", special.fair),
    "chains": Workload("flows: chains of 10 steps", special.chains),
    "groups": Workload("flows: groups of 999 with a callback", special.groups),
    "looks": Workload(
        "counts, queues, explain, first page of 1,000,000 jobs; bytes per job",
        special.looks,
        processes=True,
    ),
    "amend": Workload("change 10,000 jobs by id", special.amend, processes=True),
    "start": Workload("time of import mita and of mita --help", special.start, only="sqlite"),
    "processes": Workload("1, 2 and 4 worker processes", processes, processes=True),
    "bloat": Workload(
        "claims after many jobs, and beside an old snapshot (PostgreSQL)", bloat, only="postgres"
    ),
    "watched": Workload(
        "drain with metrics, a listener and events to another process, beside one without", watched
    ),
    "memory": Workload("memory of the worker at the first job, half way and at the end", memory),
}
