"""The parser of the command line."""

import argparse
from collections.abc import Callable, Sequence
from importlib.metadata import version
from typing import Any, NoReturn

from mita.errors import UsageError, did_you_mean

from .argtypes import duration, moment
from .defaults import chosen_app
from .exits import EXIT_CODES
from .screen import Screen

Run = Callable[[argparse.Namespace, Screen], int]

COMMANDS_OF_OTHER_QUEUES = {  # what other queues call our commands
    **dict.fromkeys(("run", "start", "work", "process"), "worker"),
    **dict.fromkeys(("beat", "clock"), "scheduler"),
    **dict.fromkeys(("list", "ls"), "jobs"),
    **dict.fromkeys(("info", "inspect", "get"), "show"),
    **dict.fromkeys(("status", "stats", "counts"), "queues"),
    **dict.fromkeys(("kill", "abort", "revoke", "stop"), "cancel"),
    **dict.fromkeys(("requeue", "replay"), "retry"),
    **dict.fromkeys(("purge", "remove", "rm", "clear"), "delete"),
    **dict.fromkeys(("cron", "periodic", "schedule"), "repeats"),
    **dict.fromkeys(("health", "ping"), "check"),
    **dict.fromkeys(("failed", "failures", "errors", "dlq"), "dead"),
    **dict.fromkeys(("monitor", "dashboard", "watch"), "top"),
}


class Parser(argparse.ArgumentParser):
    """An argument parser that raises `UsageError` instead of ending the process; `main` shows
    it."""

    def error(self, message: str) -> NoReturn:
        """Raise `UsageError` with the message."""
        if message.endswith("expected one argument"):
            message += "; a value that begins with - needs a =, as in --name=-5"
        raise UsageError(f"{message} (see `{self.prog} --help`)")

    def _check_value(self, action: argparse.Action, value: Any) -> None:
        """Suggest the most similar choice for a mistyped one."""
        choices = [str(choice) for choice in action.choices or ()]
        if action.choices is None or value in action.choices:
            return
        other = COMMANDS_OF_OTHER_QUEUES.get(str(value))
        meant = (
            f", did you mean {other!r}?" if other in choices else did_you_mean(str(value), choices)
        )
        raise argparse.ArgumentError(
            action, f"invalid choice: {value!r}{meant} (choose from {', '.join(choices)})"
        )

    def options(self) -> list[str]:
        """All options that may be given here."""
        return [
            name
            for action in self._actions
            for name in action.option_strings
            if action.help != argparse.SUPPRESS
        ]


class Commands:
    """The commands, with the options that all of them have. A command may have `verbs`."""

    def __init__(self, parser: Parser, *, verbs: bool = False) -> None:
        what = "verb" if verbs else "command"
        self._parsers = parser.add_subparsers(
            title=f"{what}s", dest=what, metavar=what.upper(), required=not verbs
        )

    def add(
        self, name: str, run: Run, help: str, *, about: str = "", app: bool = True, rest: str = ""
    ) -> Parser:
        """Add a command. `app`: it has `--app`. `rest`: its positional argument that takes all
        remaining words."""
        parser: Parser = self._parsers.add_parser(
            name,
            help=help,
            description=f"{help[:1].upper()}{help[1:]}.{about and ' '}{about}",
            formatter_class=argparse.RawDescriptionHelpFormatter,
            epilog=EXIT_CODES,
        )
        parser.set_defaults(run=run, rest=rest, parser=parser, takes_app=app)
        shared(parser, app=app)
        return parser


def shared(parser: argparse.ArgumentParser, *, app: bool) -> None:
    """Options that may be before or after the command."""
    group = parser.add_argument_group("store and output")
    missing = argparse.SUPPRESS
    group.add_argument(
        "--url",
        default=missing,
        help="the store (default: the app's own, $MITA_URL, url of [tool.mita], or sqlite:///mita.db)",
    )
    group.add_argument(
        "--namespace",
        default=missing,
        help="the part of the store to use: apps with different namespaces do not share jobs",
    )
    if app:
        group.add_argument(
            "--app",
            metavar="MODULE:APP",
            default=missing,
            help="use the store and the tasks of this app (default: $MITA_APP, app of [tool.mita])",
        )
    group.add_argument(
        "--json",
        action="store_true",
        default=missing,
        help="print one JSON document, also for errors",
    )


def root() -> Parser:
    """The parser without commands."""
    parser = Parser(
        prog="mita",
        description="Run, inspect and change the jobs of a Mita store.",
        epilog=EXIT_CODES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--version", action="version", version=f"mita {version('mita')}")
    parser.add_argument("--lifeline", type=int, default=None, help=argparse.SUPPRESS)
    parser.add_argument("--number", type=int, default=None, help=argparse.SUPPRESS)
    shared(parser, app=True)
    parser.set_defaults(url=None, namespace=None, app=None, json=False, argv=())
    return parser


def read(parser: Parser, argv: Sequence[str]) -> argparse.Namespace:
    """Parse the words. Positional words may be on both sides of options: `cancel ID --json ID`."""
    options, extra = parser.parse_known_args(argv)
    strange = [word for word in extra if word.startswith("-") or not options.rest]
    if strange:
        known = options.parser.options() if strange[0].startswith("-") else ()
        meant = did_you_mean(strange[0].partition("=")[0], known)
        raise UsageError(
            f"unknown argument {strange[0]!r}{meant} (see `mita {options.command} --help`)"
        )
    if extra:
        setattr(options, options.rest, [*getattr(options, options.rest), *extra])
    options.argv = tuple(argv)
    if options.takes_app and options.app is None and options.url is None:
        options.app = chosen_app()
    return options


def time_options(
    parser: argparse.ArgumentParser, *, at: str = "--at", required: bool = False
) -> Any:
    """Add `--at` (or another name) and `--after`, of which one may be given. Returns their
    group."""
    group = parser.add_mutually_exclusive_group(required=required)
    group.add_argument(
        at,
        type=moment,
        metavar="TIME",
        help="a time with its zone: 2030-01-31T09:00:00+01:00, or …Z for UTC",
    )
    group.add_argument(
        "--after",
        type=duration,
        metavar="DURATION",
        help="seconds, or 30s, 10m, 1h30m, 2d; 0 is now",
    )
    return group


def reason_option(parser: argparse.ArgumentParser, *, timeline: bool = False) -> None:
    """Add `--reason`, which a command has exactly if it changes something: then what it does is
    recorded in the audit log. `timeline`: the reason is stored with the job, too."""
    where = "in the job's timeline and in the audit log" if timeline else "in the audit log"
    parser.add_argument("--reason", default="", help=f"why; stored {where}, with your user name")
