"""The sizes of a run: full, quick, or as the options say."""

from msgspec import Struct
from msgspec.structs import replace

_FULL = {"memory": 100_000, "sqlite": 120_000, "redis": 200_000, "postgres": 60_000, "nats": 50_000}
_FEWER_WAITING = {"memory": 100_000}  # its lists are not made for a million jobs
_QUICK = {"memory": 20_000, "sqlite": 30_000, "redis": 40_000, "postgres": 15_000, "nats": 12_000}


class Sizes(Struct, frozen=True, kw_only=True):
    """`drain` is the number of jobs in a plain drain; slower workloads take a part of it."""

    drain: int
    repeat: int = 3
    seconds: float = 2.0
    pickups: int = 100
    timers: int = 60
    waiting: tuple[int, ...] = (0, 10_000, 100_000, 1_000_000)
    ready: int = 1_000_000
    processes: tuple[int, ...] = (1, 2, 4)
    repeats: int = 10_000

    def part(self, share: float) -> int:
        return max(1, int(self.drain * share))


def sizes(
    store: str, *, quick: bool, jobs: int | None, waiting: int | None, repeat: int | None
) -> Sizes:
    chosen = Sizes(drain=_FULL[store])
    if quick:
        chosen = Sizes(
            drain=_QUICK[store],
            repeat=1,
            seconds=1.0,
            pickups=25,
            timers=20,
            waiting=(0, 10_000, 100_000),
            ready=100_000,
        )
    if jobs is not None:
        chosen = replace(chosen, drain=jobs)
    most = (
        min(chosen.ready, _FEWER_WAITING.get(store, chosen.ready)) if waiting is None else waiting
    )
    chosen = replace(chosen, ready=most, waiting=(*(n for n in chosen.waiting if n < most), most))
    return replace(chosen, repeat=repeat or chosen.repeat)
