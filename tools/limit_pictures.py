"""python -m tools.limit_pictures: run jobs under a rate and in fair shares, and draw when they
started, into docs/pictures/rate.svg and shares.svg."""

import asyncio
import tempfile
from pathlib import Path

from benchmarks.svg import WIDTH, Board

from mita import Job, Mita, Rate

PICTURES = Path(__file__).parent.parent / "docs" / "pictures"
RATE = Rate(5, per=1, burst=5)
RATED_JOBS = 20
TENANTS = {"large": 240, "middle": 60, "small": 20}
_LEFT, _TOP, _HIGH = 60.0, 60.0, 200.0
_BOTTOM = _TOP + _HIGH
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
        f"{len(starts)} jobs that are ready at once, at Rate({RATE.limit}, per=1, "
        f"burst={RATE.burst})",
        f"{RATE.burst} jobs start at once, then one every {1000 // RATE.limit} ms; "
        f"the last at {end:.2f} s",
        _TOP + _HIGH + 40,
    )
    wide, high = (WIDTH - _LEFT - 30) / end, _HIGH / (len(starts) + 1)
    _axes(
        board,
        [(f"{second} s", _LEFT + second * wide) for second in range(int(end) + 1)],
        [(str(n), _BOTTOM - n * high) for n in range(0, len(starts) + 1, 5)],
    )
    allowed = [(0.0, RATE.burst), (end, RATE.burst + RATE.limit * end)]
    board.line([(_LEFT + at * wide, _BOTTOM - n * high) for at, n in allowed], "orange", thick=1.5)
    points = [(_LEFT, _BOTTOM)]
    for n, at in enumerate(starts, 1):
        x = _LEFT + at * wide
        points += [(x, points[-1][1]), (x, _BOTTOM - n * high)]
    board.line(points, "blue", thick=2.5)
    _legend(
        board,
        {
            "orange": f"what the rate allows: {RATE.burst} + {RATE.limit} per second",
            "blue": "jobs that have started",
        },
        WIDTH / 2,
        _BOTTOM - 48,
    )
    return board


def draw_shares(order: list[str]) -> Board:
    """How many jobs of each tenant have started, over all starts."""
    board = Board(
        "Three tenants in one queue take turns; the largest came first",
        "; ".join(f"{name}: {jobs} jobs" for name, jobs in TENANTS.items()),
        _TOP + _HIGH + 40,
    )
    wide, high = (WIDTH - _LEFT - 30) / len(order), _HIGH / max(TENANTS.values())
    _axes(
        board,
        [(f"{n} starts in all", _LEFT + n * wide) for n in range(80, len(order), 80)],
        [(str(n), _BOTTOM - n * high) for n in range(0, max(TENANTS.values()) + 1, 60)],
    )
    for shift, name in enumerate(TENANTS):
        points, so_far = [(_LEFT, _BOTTOM)], 0
        for n, tenant in enumerate(order, 1):
            so_far += tenant == name
            # lines that lie on each other are drawn side by side
            points.append((_LEFT + n * wide, _BOTTOM - so_far * high + 2.5 * (shift - 1)))
        board.line(points, _COLOURS[name], thick=2.5)
        done = len(order) - order[::-1].index(name)
        if done < len(order):
            text = f"{name} is done after {done} starts"
            y = _BOTTOM - TENANTS[name] * high + 16
            board.text(_LEFT + done * wide + 8, y, text, "muted", size=11)
    names = {_COLOURS[name]: f"{name}: {jobs} jobs" for name, jobs in TENANTS.items()}
    _legend(board, names, _LEFT + 12, _TOP + 6)
    return board


def _axes(board: Board, across: list[tuple[str, float]], upwards: list[tuple[str, float]]) -> None:
    """Draw the grid: what is written below each vertical line, and beside each horizontal one."""
    for text, x in across:
        board.line([(x, _TOP), (x, _BOTTOM)], "grid")
        board.text(x, _BOTTOM + 18, text, "muted", anchor="middle", size=11)
    for text, y in upwards:
        board.line([(_LEFT, y), (WIDTH - 30, y)], "grid")
        board.text(_LEFT - 8, y + 4, text, "muted", anchor="end", size=11)


def _legend(board: Board, names: dict[str, str], x: float, y: float) -> None:
    for row, (colour, text) in enumerate(names.items()):
        board.rect(x, y + row * 18, 12, 12, colour, round=2)
        board.text(x + 18, y + 10 + row * 18, text, "muted")


if __name__ == "__main__":
    main()
