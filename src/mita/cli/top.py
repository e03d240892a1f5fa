"""`top`: a live view of queues, workers, rates, and running jobs."""

import argparse
import asyncio
import io
import shutil
from collections.abc import AsyncIterator, Iterator
from contextlib import contextmanager, suppress

from mita.errors import StoreError
from mita.printable import printable

from . import snapshot
from .argtypes import count, wait
from .context import Desk, sit
from .exits import Exit, in_words
from .parser import Commands
from .screen import Report, Screen
from .snapshot import Frame
from .table import Table, draw

# A screen of its own, without a cursor, on which a line that is too long is cut and not wrapped.
ENTER, LEAVE = "\x1b[?1049h\x1b[?25l\x1b[?7l", "\x1b[?7h\x1b[?25h\x1b[?1049l"
HOME, REST_OF_LINE, REST_OF_SCREEN = "\x1b[H", "\x1b[K", "\x1b[J"
LEAST_INTERVAL_S = 0.1
LOOK_TIMEOUT_S = 5.0  # seconds after which a store counts as away that does not even say no


def add(commands: Commands) -> None:
    about = (
        "Without a terminal (or on a dumb one), with --once or with --json it shows one "
        "picture and ends. Ctrl-C leaves."
    )
    top = commands.add("top", run, "watch queues, workers, rates and running jobs", about=about)
    top.add_argument("--once", action="store_true", help="show it once and end")
    top.add_argument(
        "--interval",
        type=interval,
        default=2.0,
        metavar="WAIT",
        help="between two updates (2s; at least 0.1s)",
    )
    top.add_argument(
        "--jobs", type=count, default=50, help="how many running jobs to show (50; at most 1000)"
    )


def interval(text: str) -> float:
    length = wait(text)
    if length < LEAST_INTERVAL_S:
        raise argparse.ArgumentTypeError(f"{text!r} is too short: give 0.1s or more")
    return length


def run(options: argparse.Namespace, screen: Screen) -> int:
    if options.once or screen.json or not screen.paints:
        return screen.show(asyncio.run(sit(once, options, screen)))
    with suppress(KeyboardInterrupt):  # the way out
        asyncio.run(sit(live, options, screen))
    return Exit.OK


async def once(desk: Desk) -> Report:
    return snapshot.report(await snapshot.look(desk))


async def live(desk: Desk) -> Report:
    """Update the screen until it is interrupted. If the store is unreachable, that is shown above
    the last data."""
    last = await snapshot.look(desk)
    with own_screen(desk.screen):
        paint(desk.screen, last)
        async for known, trouble in looks(desk):
            last = known or last
            paint(desk.screen, last, trouble)
    return Report({})


async def looks(desk: Desk) -> AsyncIterator[tuple[Frame | None, str]]:
    """Yield a snapshot each interval, or the reason why there is none."""
    while True:
        await asyncio.sleep(desk.options.interval)
        try:
            async with asyncio.timeout(LOOK_TIMEOUT_S):
                found = await snapshot.look(desk)
        except TimeoutError:
            yield None, f"the store does not answer (for {LOOK_TIMEOUT_S:g} s)"
        except StoreError as error:
            yield None, f"the store is unreachable: {in_words(error)}"
        else:
            yield found, ""


@contextmanager
def own_screen(screen: Screen) -> Iterator[None]:
    """Use the terminal's alternate screen; at the end of the block the old content is back."""
    screen.out.write(ENTER)
    try:
        yield
    finally:
        screen.out.write(LEAVE)
        screen.out.flush()


def paint(screen: Screen, shown: Frame, trouble: str = "") -> None:
    size = shutil.get_terminal_size()
    lines = drawn(screen, shown, size.columns, size.lines - bool(trouble))
    if trouble:
        told = printable(f"as of {shown.now:%H:%M:%S} UTC: {trouble}")
        lines.insert(0, screen.paint(told[: size.columns], "bold red"))
    screen.out.write(
        HOME + (REST_OF_LINE + "\n").join(lines[: size.lines]) + REST_OF_LINE + REST_OF_SCREEN
    )
    screen.out.flush()


def drawn(screen: Screen, shown: Frame, width: int, height: int) -> list[str]:
    """The report as lines that fit the terminal."""
    out = io.StringIO()
    for part in snapshot.report(shown, height).parts:
        if isinstance(part, Table):
            draw(part, out, width, colours=screen.colours)
        else:
            print(
                screen.paint(
                    printable(part)[:width], "bold" if part.startswith("mita top") else ""
                ),
                file=out,
            )
    return out.getvalue().splitlines()
