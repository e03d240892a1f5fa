"""How much to claim: what can start soon, and no more, so that other workers do not starve."""

from msgspec import Struct

CLAIM_AHEAD_S = 0.05  # seconds of work a worker may hold beyond what it runs
CALL_JOBS = 1000  # items in one call to a store
BESIDE_JOBS = 100  # jobs in one claim while the threads or the processes are full
RATE_MEMORY_S = 0.2  # seconds over which the rate of finished runs is smoothed


class Load(Struct, frozen=True):
    """What a worker is doing. `rate` is finished runs per second of late; `threads` and `processes`
    are 0 when no task needs them."""

    slots: int
    running: int
    waiting: int
    rate: float
    threads: int = 0
    on_threads: int = 0
    processes: int = 0
    in_processes: int = 0


def room(load: Load) -> int:
    """How many more jobs to claim now."""
    ahead = int(load.rate * CLAIM_AHEAD_S)
    free = load.slots - load.running
    if load.threads:  # what waits for a thread cannot start before one is free
        free = min(free, load.threads - load.on_threads)
    if load.processes:
        free = min(free, load.processes - load.in_processes)
    return max(0, min(free + ahead - load.waiting, CALL_JOBS))


def full_pools(load: Load) -> frozenset[str]:
    """The executors that have no free place: `thread`, `process`."""
    threads = {"thread"} if load.threads and load.on_threads >= load.threads else set()
    processes = {"process"} if load.processes and load.in_processes >= load.processes else set()
    return frozenset(threads | processes)


def room_beside(load: Load) -> int:
    """How many jobs to claim while a pool is full. Some of them may need that pool and be put back,
    so it is not many."""
    return max(0, min(load.slots - load.running - load.waiting, BESIDE_JOBS))


def smooth(rate: float, finished: int, seconds: float) -> float:
    """A moving rate that forgets in about a fifth of a second."""
    if seconds <= 0:
        return rate
    weight = min(1.0, seconds / RATE_MEMORY_S)
    return rate + (finished / seconds - rate) * weight


def rotate(queues: list[str], turn: int) -> list[str]:
    """Each turn begins with another queue, so that a busy one cannot hold up the others."""
    if not queues:
        return queues
    shift = turn % len(queues)
    return queues[shift:] + queues[:shift]
