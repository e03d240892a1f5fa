"""The command line, `mita`. It uses the app and the store contract like any other program."""

import errno
import os
import sys
import traceback
from collections.abc import Sequence

from mita.errors import MitaError

from . import (
    amend,
    arguments,
    audit,
    bulk_runs,
    check,
    completion,
    dead,
    demo,
    doctor,
    enqueue,
    flows,
    history,
    inspect,
    limits,
    queues,
    relay,
    repeats,
    scheduler,
    signal_job,
    top,
    web,
    why,
    worker,
)
from .exits import Exit, exit_of
from .parser import Commands, Parser, read, root
from .screen import Screen
from .supervisor import is_child

_WRITE_ERRORS = (errno.ENOSPC, errno.EFBIG, errno.EIO, getattr(errno, "EDQUOT", None))


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
        _discard_output()
        return Exit.OK
    except OSError as error:
        if error.errno not in _WRITE_ERRORS:
            raise
        _discard_output()
        screen.print_stderr(
            f"mita: the output could not be written: {error.strerror}. Free some space, or write "
            "it elsewhere"
        )
        return Exit.FAILED
    except (MitaError, KeyboardInterrupt) as error:
        screen.print_error(error)
        return exit_of(error)
    except Exception as error:  # noqa: BLE001
        # a bug in Mita. The traceback may contain text from jobs: control characters are replaced
        if screen.json:
            screen.print_error(error)
        screen.print_stderr(traceback.format_exc().rstrip())
        return Exit.FAILED


def _discard_output() -> None:
    """Replace stdout: what is left in its buffer would fail again when Python ends."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def grammar() -> Parser:
    """The parser with all commands."""
    parser = root()
    commands = Commands(parser)
    for group in (
        worker,
        scheduler,
        relay,
        demo,
        enqueue,
        inspect,
        dead,
        why,
        flows,
        history,
        top,
        web,
        amend,
        arguments,
        bulk_runs,
        signal_job,
        queues,
        limits,
        repeats,
        audit,
        check,
        doctor,
        completion,
    ):
        group.add(commands)
    return parser


def _run(arguments: list[str], screen: Screen, *, is_process: bool) -> int:
    """Run the command. `is_process`: this process does nothing else."""
    options = read(grammar(), arguments)
    options.is_process = is_process
    code: int = options.run(options, screen)
    return code
