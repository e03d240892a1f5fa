"""How many jobs to claim: what can start soon and no more, so that other workers get jobs too."""

from msgspec import Struct

CLAIM_AHEAD_S = 0.05  # of work that a worker may claim beyond what it runs
CALL_JOBS = 1000  # in one call to a store
BESIDE_JOBS = 100  # in one claim while the threads or the processes are full
RATE_MEMORY_S = 0.2  # that the rate of finished runs is averaged over


class Load(Struct, frozen=True):
    """How busy a worker is. `rate` is finished runs per second; `threads` and `processes` are 0 if
    no task needs them."""

    slots: int
    running: int
    waiting: int
    rate: float
    threads: int = 0
    on_threads: int = 0
    processes: int = 0
    in_processes: int = 0


def jobs_to_claim(load: Load) -> int:
    """Returns how many more jobs to claim now."""
    ahead = int(load.rate * CLAIM_AHEAD_S)
    free = load.slots - load.running
    if load.threads:  # jobs for threads cannot start before one is free
        free = min(free, load.threads - load.on_threads)
    if load.processes:
        free = min(free, load.processes - load.in_processes)
    return max(0, min(free + ahead - load.waiting, CALL_JOBS))


def full_pools(load: Load) -> frozenset[str]:
    """Returns the executors without a free slot: `thread`, `process`."""
    threads = {"thread"} if load.threads and load.on_threads >= load.threads else set()
    processes = {"process"} if load.processes and load.in_processes >= load.processes else set()
    return frozenset(threads | processes)


def jobs_beside_full_pool(load: Load) -> int:
    """Returns how many jobs to claim while a pool is full. Not many: some may need that pool and go
    back."""
    return max(0, min(load.slots - load.running - load.waiting, BESIDE_JOBS))


def smooth(rate: float, finished: int, seconds: float) -> float:
    """Returns a moving average of the rate, over about a fifth of a second."""
    if seconds <= 0:
        return rate
    weight = min(1.0, seconds / RATE_MEMORY_S)
    return rate + (finished / seconds - rate) * weight


def rotate(queues: list[str], turn: int) -> list[str]:
    """Returns the queues, beginning with another one at each call, so that a busy queue does not
    hold up the others."""
    if not queues:
        return queues
    shift = turn % len(queues)
    return queues[shift:] + queues[:shift]
