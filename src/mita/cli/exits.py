"""How a command ends: the exit codes, and which error means which."""

from enum import IntEnum

from mita.errors import MitaError, StoreError, UsageError


class Exit(IntEnum):
    """What the shell is told."""

    OK = 0
    FAILED = 1
    USAGE = 2
    STORE = 3
    # a supervised process has run its jobs, and is to be started anew; nobody else sees it
    AGAIN = 75
    INTERRUPTED = 130


EXIT_CODES = """exit codes:
  0    done
  1    something failed, or was not found
  2    wrong use: an option, a value, a URL, a module:app
  3    the store cannot be reached
  130  interrupted
"""

_KINDS = {
    Exit.FAILED: "failed",
    Exit.USAGE: "usage",
    Exit.STORE: "store",
    Exit.INTERRUPTED: "interrupted",
}


class NotFound(MitaError):
    """What was named is not in the store."""


class CommandRefused(MitaError):
    """It was not done, although it was asked in the right way."""


def exit_of(error: BaseException) -> Exit:
    match error:
        case KeyboardInterrupt():
            return Exit.INTERRUPTED
        case UsageError():
            return Exit.USAGE
        case StoreError():
            return Exit.STORE
    return Exit.FAILED


def as_data(error: BaseException) -> dict[str, str]:
    """The error as `--json` gives it."""
    return {"error": in_words(error), "kind": kind(exit_of(error))}


def kind(code: Exit) -> str:
    return _KINDS[code]


def in_words(error: BaseException) -> str:
    if isinstance(error, KeyboardInterrupt):
        return "interrupted"
    return str(error) if isinstance(error, MitaError) else f"{type(error).__name__}: {error}"
