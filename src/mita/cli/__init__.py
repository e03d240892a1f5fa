"""The command line, `mita`. It uses the app and the store contract like any other program."""

import errno
import os
import sys
import traceback
from collections.abc import Sequence

from mita.errors import MitaError

from . import amend, demo, doctor, enqueue, inspect, queues, repeats, scheduler, top, worker
from .exits import Exit, exit_of
from .parser import Commands, Parser, read, root
from .screen import Screen
from .supervisor import is_child

_NO_ROOM = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO)


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command. Returns the exit code."""
    arguments = sys.argv[1:] if argv is None else list(argv)
    for stream in (sys.stdout, sys.stderr):
        if hasattr(stream, "reconfigure"):
            stream.reconfigure(errors="replace")
    screen = Screen(json="--json" in arguments and not is_child(arguments))
    try:
        return _run(arguments, screen, is_process=argv is None)
    except BrokenPipeError:  # the reader of our output has closed it
        _write_no_more()
        return Exit.OK
    except OSError as error:
        if error.errno not in _NO_ROOM:
            raise
        _write_no_more()
        screen.note(
            f"mita: the answer could not be written: {error.strerror}. Free some room, or write "
            "it elsewhere"
        )
        return Exit.FAILED
    except (MitaError, KeyboardInterrupt) as error:
        screen.confess(error)
        return exit_of(error)
    except Exception as error:  # noqa: BLE001
        # a fault of ours: its trace, which may hold text from jobs, is cleaned
        if screen.json:
            screen.confess(error)
        screen.note(traceback.format_exc().rstrip())
        return Exit.FAILED


def _write_no_more() -> None:
    """Replace stdout: what is left in its buffer would fail again when Python ends."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def grammar() -> Parser:
    """The parser with all commands."""
    parser = root()
    commands = Commands(parser)
    for group in (worker, scheduler, demo, enqueue, inspect, top, amend, queues, repeats, doctor):
        group.add(commands)
    return parser


def _run(arguments: list[str], screen: Screen, *, is_process: bool) -> int:
    """Run the command. `is_process`: this process does nothing else."""
    options = read(grammar(), arguments)
    options.is_process = is_process
    code: int = options.run(options, screen)
    return code
