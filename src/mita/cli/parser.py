"""The parser of the command line."""

import argparse
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, NoReturn, TypeAlias, cast

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


if TYPE_CHECKING:
    _SubParsers: TypeAlias = argparse._SubParsersAction[Parser]  # noqa: SLF001
else:  # argparse has no public name for it
    _SubParsers = argparse._SubParsersAction  # noqa: SLF001


class _LateParsers(_SubParsers):
    """The parsers of commands. `late` has what adds the parser of a command that was not used
    yet."""

    def __init__(self, *args: Any, **settings: Any) -> None:
        super().__init__(*args, **settings)
        self.late: dict[str, Callable[[], None]] = {}

    def __call__(
        self,
        parser: argparse.ArgumentParser,
        namespace: argparse.Namespace,
        values: Any,
        option_string: str | None = None,
    ) -> None:
        """Called by argparse with the words from the command on."""
        if values[0] in self.late:
            self.late[values[0]]()
        super().__call__(parser, namespace, values, option_string)


class _ShowVersion(argparse.Action):
    """Print the version and end. To find it takes longer than to parse a command."""

    def __call__(self, parser: argparse.ArgumentParser, *_: Any) -> NoReturn:
        """Called by argparse."""
        from importlib.metadata import version

        print(f"mita {version('mita')}")
        parser.exit()


class Commands:
    """The commands, with the options that all of them have. A command may have `verbs`."""

    def __init__(self, parser: Parser, *, verbs: bool = False) -> None:
        what = "verb" if verbs else "command"
        self._helps: dict[str, str] = {}  # of late commands
        made = parser.add_subparsers(
            title=f"{what}s",
            dest=what,
            metavar=what.upper(),
            required=not verbs,
            action=_LateParsers,
        )
        self._parsers = cast(_LateParsers, made)

    def add_late(self, name: str, help: str, add: Callable[[], None]) -> None:
        """Add a command that has no parser yet. `add` is called when it is used, and must add it
        again, without its help."""
        self._parsers.add_parser(name, help=help, add_help=False)
        self._parsers.late[name] = add
        self._helps[name] = help

    def add_all(self) -> None:
        """Make the parsers of all commands."""
        while late := self._parsers.late:
            next(iter(late.values()))()

    def add(
        self,
        name: str,
        run: Run,
        help: str = "",
        *,
        about: str = "",
        app: bool = True,
        rest: str = "",
    ) -> Parser:
        """Add a command. `app`: it has `--app`. `rest`: its positional argument that takes all
        remaining words. A late command has its `help` already."""
        listed: dict[str, Any] = {"help": help}
        if self._parsers.late.pop(name, None) is not None:
            del self._parsers._name_parser_map[name]  # noqa: SLF001
            help, listed = self._helps[name], {}
        parser: Parser = self._parsers.add_parser(
            name,
            **listed,
            description=f"{help[:1].upper()}{help[1:]}.{about and ' '}{about}",
            formatter_class=argparse.RawDescriptionHelpFormatter,
            epilog=EXIT_CODES,
        )
        parser.set_defaults(run=run, rest=rest, parser=parser, takes_app=app)
        shared(parser, app=app)
        return parser


def is_child(arguments: Sequence[str]) -> bool:
    """Whether a supervisor started this process."""
    return bool(arguments) and arguments[0].startswith("--lifeline=")


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
    parser.add_argument(
        "--version",
        action=_ShowVersion,
        nargs=0,
        dest=argparse.SUPPRESS,
        default=argparse.SUPPRESS,
        help="show program's version number and exit",
    )
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
