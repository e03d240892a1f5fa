"""`top`: a live view of queues, workers, rates, and running jobs."""

import argparse
import asyncio
import io
import shutil
from collections.abc import AsyncIterator, Iterator
from contextlib import contextmanager, suppress

from mita.errors import StoreError
from mita.printable import printable

from .argtypes import count, duration
from .context import CommandContext, run_command
from .exits import Exit, in_words
from .parser import Commands
from .screen import Report, Screen
from .snapshot import Snapshot, read_snapshot, report
from .table import Table, draw

# A screen of its own, without a cursor, on which a line that is too long is cut and not wrapped.
ENTER, LEAVE = "\x1b[?1049h\x1b[?25l\x1b[?7l", "\x1b[?7h\x1b[?25h\x1b[?1049l"
HOME, REST_OF_LINE, REST_OF_SCREEN = "\x1b[H", "\x1b[K", "\x1b[J"
LEAST_INTERVAL_S = 0.1
READ_TIMEOUT_S = 5.0  # after this time without an answer the store counts as unreachable


def add(commands: Commands) -> None:
    """Add the command to the parser."""
    about = (
        "Without a terminal (or on a dumb one), with --once or with --json it shows one "
        "snapshot and ends. Ctrl-C ends it too."
    )
    top = commands.add("top", run, about=about)
    top.add_argument("--once", action="store_true", help="show it once and end")
    top.add_argument(
        "--interval",
        type=interval,
        default=2.0,
        metavar="DURATION",
        help="time between two updates (2s; at least 0.1s)",
    )
    top.add_argument(
        "--jobs", type=count, default=50, help="how many running jobs to show (50; at most 1000)"
    )


def interval(text: str) -> float:
    """Parse the time between two updates."""
    length = duration(text)
    if length < LEAST_INTERVAL_S:
        raise argparse.ArgumentTypeError(f"{text!r} is too short: give 0.1s or more")
    return length


def run(options: argparse.Namespace, screen: Screen) -> int:
    """Run `mita top`. Returns the exit code."""
    if options.once or screen.json or not screen.can_overwrite:
        return screen.show(asyncio.run(run_command(once, options, screen)))
    with suppress(KeyboardInterrupt):  # Ctrl-C ends the view
        asyncio.run(run_command(live, options, screen))
    return Exit.OK


async def once(context: CommandContext) -> Report:
    """Show one snapshot."""
    return report(await read_snapshot(context))


async def live(context: CommandContext) -> Report:
    """Update the screen until it is interrupted. If the store is unreachable, that is shown above
    the last data."""
    last = await read_snapshot(context)
    with own_screen(context.screen):
        paint(context.screen, last)
        async for known, trouble in snapshots(context):
            last = known or last
            paint(context.screen, last, trouble)
    return Report({})


async def snapshots(context: CommandContext) -> AsyncIterator[tuple[Snapshot | None, str]]:
    """Yield a snapshot each interval, or the reason why there is none."""
    while True:
        await asyncio.sleep(context.options.interval)
        try:
            async with asyncio.timeout(READ_TIMEOUT_S):
                found = await read_snapshot(context)
        except TimeoutError:
            yield None, f"the store does not answer (for {READ_TIMEOUT_S:g} s)"
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


def paint(screen: Screen, snapshot: Snapshot, trouble: str = "") -> None:
    """Draw the snapshot over the last one. `trouble`: why it is not up to date."""
    size = shutil.get_terminal_size()
    lines = drawn(screen, snapshot, size.columns, size.lines - bool(trouble))
    if trouble:
        warning = printable(f"as of {snapshot.now:%H:%M:%S} UTC: {trouble}")
        lines.insert(0, screen.paint(warning[: size.columns], "bold red"))
    screen.out.write(
        HOME + (REST_OF_LINE + "\n").join(lines[: size.lines]) + REST_OF_LINE + REST_OF_SCREEN
    )
    screen.out.flush()


def drawn(screen: Screen, snapshot: Snapshot, width: int, height: int) -> list[str]:
    """The report as lines that fit the terminal."""
    out = io.StringIO()
    for part in report(snapshot, height).parts:
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
