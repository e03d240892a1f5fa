"""How a command ends: the exit codes, and which error means which."""

from enum import IntEnum

from mita.errors import MitaError, StoreError, UsageError


class Exit(IntEnum):
    """The exit codes."""

    OK = 0
    FAILED = 1
    USAGE = 2
    STORE = 3
    # a process has run its jobs, and its supervisor should start another
    AGAIN = 75
    INTERRUPTED = 130


EXIT_CODES = """exit codes:
  0    done
  1    something failed, or was not found
  2    wrong use: an option, a value, a URL, a module:app
  3    the store is unreachable
  130  interrupted
"""

_KINDS = {
    Exit.FAILED: "failed",
    Exit.USAGE: "usage",
    Exit.STORE: "store",
    Exit.INTERRUPTED: "interrupted",
}


class NotFound(MitaError):
    """What the command names is not in the store."""


class CommandRefused(MitaError):
    """The command was right, but nothing was done: the user did not confirm it."""


def exit_of(error: BaseException) -> Exit:
    """The exit code of an error."""
    match error:
        case KeyboardInterrupt():
            return Exit.INTERRUPTED
        case UsageError():
            return Exit.USAGE
        case StoreError():
            return Exit.STORE
    return Exit.FAILED


def as_data(error: BaseException) -> dict[str, str]:
    """The error as a document, for `--json`."""
    return {"error": in_words(error), "kind": kind(exit_of(error))}


def kind(code: Exit) -> str:
    """The kind of an error, for `--json`."""
    return _KINDS[code]


def in_words(error: BaseException) -> str:
    """The error as text."""
    if isinstance(error, KeyboardInterrupt):
        return "interrupted"
    return str(error) if isinstance(error, MitaError) else f"{type(error).__name__}: {error}"
