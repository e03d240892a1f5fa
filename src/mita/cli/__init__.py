"""The command line, `mita`. It uses the app and the store contract like any other program."""

import errno
import os
import sys
from collections.abc import Sequence
from functools import partial
from importlib import import_module

from mita.errors import MitaError

from .commands import COMMANDS
from .exits import Exit, exit_of
from .parser import Commands, Parser, is_child, read, root
from .screen import Screen

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
        import traceback

        if screen.json:
            screen.print_error(error)
        screen.print_stderr(traceback.format_exc().rstrip())
        return Exit.FAILED


def _discard_output() -> None:
    """Replace stdout: what is left in its buffer would fail again when Python ends."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def grammar() -> Parser:
    """The parser with all commands."""
    parser, commands = _late_grammar()
    commands.add_all()
    return parser


def _late_grammar() -> tuple[Parser, Commands]:
    """The parser, which imports the module of a command when the command is used."""
    parser = root()
    commands = Commands(parser)
    for module, helps in COMMANDS.items():
        for name, help in helps.items():
            commands.add_late(name, help, partial(_add, module, commands))
    return parser, commands


def _add(module: str, commands: Commands) -> None:
    """Add the commands of this module."""
    import_module(f"{__name__}.{module}").add(commands)


def _run(arguments: list[str], screen: Screen, *, is_process: bool) -> int:
    """Run the command. `is_process`: this process does nothing else."""
    parser, _ = _late_grammar()
    options = read(parser, arguments)
    options.is_process = is_process
    code: int = options.run(options, screen)
    return code
