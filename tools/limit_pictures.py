"""python -m tools.limit_pictures: run jobs under a rate and in fair shares, and draw when they
started, into docs/pictures/rate.svg and shares.svg."""

import asyncio
import tempfile
from pathlib import Path

from benchmarks.svg import WIDTH, Board

from mita import Job, Mita, Rate

PICTURES = Path(__file__).parent.parent / "docs" / "pictures"
RATE = Rate(20, per=1, burst=10)
RATED_JOBS = 70
TENANTS = {"large": 240, "middle": 60, "small": 20}
_LEFT, _TOP, _HIGH = 60.0, 60.0, 200.0
_COLOURS = {"large": "blue", "middle": "orange", "small": "green"}


def main() -> None:
    PICTURES.mkdir(parents=True, exist_ok=True)
    (PICTURES / "rate.svg").write_text(str(draw_rate(asyncio.run(rated()))), encoding="utf-8")
    (PICTURES / "shares.svg").write_text(str(draw_shares(asyncio.run(shared()))), encoding="utf-8")
    print(PICTURES / "rate.svg", PICTURES / "shares.svg", sep="\n")


async def rated() -> list[float]:
    """When jobs under a rate start, in seconds after the first, on the store's clock."""
    starts: list[int] = []
    with tempfile.TemporaryDirectory() as folder:
        app = Mita(f"sqlite:///{folder}/jobs.db")

        @app.task(rate=RATE)
        async def work(job: Job) -> None:
            starts.append(job._claim.at)  # noqa: SLF001

        async with app:
            await app.enqueue_many([work.call() for _ in range(RATED_JOBS)])
            await app.worker(until_empty=True).run()
    return [(at - starts[0]) / 1000 for at in sorted(starts)]


async def shared() -> list[str]:
    """Whose jobs start, one after the other."""
    order: list[str] = []
    with tempfile.TemporaryDirectory() as folder:
        app = Mita(f"sqlite:///{folder}/jobs.db")

        @app.task(fair="{tenant}")
        async def work(tenant: str) -> None:
            order.append(tenant)

        async with app:
            for tenant, jobs in TENANTS.items():
                await app.enqueue_many([work.call(tenant) for _ in range(jobs)])
            await app.worker(until_empty=True, concurrency=1).run()
    return order


def draw_rate(starts: list[float]) -> Board:
    """Starts so far over time, below the line of what the rate allows."""
    end = starts[-1]
    board = Board(
        f"{len(starts)} jobs at Rate({RATE.limit}, per=1, burst={RATE.burst})",
        f"{RATE.burst} jobs start at once, then one every {1000 // RATE.limit} ms; "
        f"the last at {end:.2f} s",
        _TOP + _HIGH + 50,
    )
    wide, high = (WIDTH - _LEFT - 30) / end, _HIGH / (len(starts) + 5)
    _axes(board, [(f"{second} s", _LEFT + second * wide) for second in range(int(end) + 1)])
    bottom = _TOP + _HIGH
    allowed = [(0.0, RATE.burst), (end, RATE.burst + RATE.limit * end)]
    board.line([(_LEFT + at * wide, bottom - n * high) for at, n in allowed], "orange", thick=2)
    for n, at in enumerate(starts, 1):
        board.rect(_LEFT + at * wide - 1.5, bottom - n * high - 1.5, 3, 3, "blue")
    board.text(_LEFT + 10, _TOP + 14, "blue: starts so far; orange: what the rate allows", "muted")
    return board


def draw_shares(order: list[str]) -> Board:
    """How many jobs of each tenant have started, over all starts."""
    board = Board(
        "Three tenants in one queue, the largest came first",
        "; ".join(f"{name}: {jobs} jobs" for name, jobs in TENANTS.items()),
        _TOP + _HIGH + 50,
    )
    wide, high = (WIDTH - _LEFT - 90) / len(order), _HIGH / max(TENANTS.values())
    steps = range(0, len(order) + 1, 80)
    _axes(board, [(f"{n} starts", _LEFT + n * wide) for n in steps])
    bottom = _TOP + _HIGH
    for row, (name, jobs) in enumerate(TENANTS.items()):
        points, so_far = [(_LEFT, bottom)], 0
        for n, tenant in enumerate(order, 1):
            so_far += tenant == name
            points.append((_LEFT + n * wide, bottom - so_far * high))
        board.line(points, _COLOURS[name], thick=2.5)
        board.rect(_LEFT + 12, _TOP + 4 + row * 18, 12, 12, _COLOURS[name], round=2)
        board.text(_LEFT + 30, _TOP + 14 + row * 18, f"{name}: {jobs} jobs", "muted")
    return board


def _axes(board: Board, marks: list[tuple[str, float]]) -> None:
    bottom = _TOP + _HIGH
    board.line([(_LEFT, bottom), (WIDTH - 30, bottom)], "grid")
    for text, x in marks:
        board.line([(x, _TOP), (x, bottom)], "grid")
        board.text(x, bottom + 18, text, "muted", anchor="middle", size=11)


if __name__ == "__main__":
    main()
