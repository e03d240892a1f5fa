"""Changing all jobs that match a filter: count, confirm, change in batches."""

from collections.abc import Awaitable, Callable
from contextlib import ExitStack
from typing import TypeAlias

from mita.client.filters import FILTERS
from mita.errors import UsageError
from mita.model.outcome import Answer
from mita.model.record import BulkResult
from mita.rules.words import counted

from .answers import counted_in_words
from .argtypes import rate
from .context import CommandContext
from .exits import CommandRefused, Exit
from .parser import Parser
from .progress import ProgressBar
from .screen import Report

DOING = {
    "cancel": "cancelling",
    "reschedule": "rescheduling",
    "retry": "retrying",
    "delete": "deleting",
    "amend": "amending",
}

# a bulk method of an app: `cancel_many` and so on
BulkMethod: TypeAlias = Callable[..., Awaitable[BulkResult]]


def bulk_options(parser: Parser, all: str = "all jobs that match") -> None:
    """Add the options for changing many jobs."""
    parser.add_argument("--all", action="store_true", help=f"{all}; needed if no filter is given")
    parser.add_argument("--yes", action="store_true", help="do not ask for confirmation")
    parser.add_argument("--dry-run", action="store_true", help="only count the jobs that match")
    parser.add_argument(
        "--rate",
        type=rate,
        metavar="N/TIME",
        help="change so many jobs in this time, as a bulk run (`mita bulk`): 50/s, 600/m",
    )


def by_filter(context: CommandContext) -> bool:
    """Whether jobs are chosen by filters and not by their ids. Raises `UsageError` for a command
    that does neither, or both."""
    options = context.options
    chosen = options.all or any(getattr(options, name) is not None for name in FILTERS)
    if options.ids and chosen:
        raise UsageError("name jobs by id, or choose them with filters or --all, but not both")
    if options.ids and is_bulk_run(context):
        raise UsageError(
            "--rate and --set are for jobs that filters choose; `mita amend ID NAME=VALUE` changes "
            "the arguments of one job"
        )
    if options.ids and options.dry_run:
        raise UsageError(
            "--dry-run counts the jobs that filters choose: leave it out for jobs that are named "
            "by id"
        )
    if not options.ids and not chosen:
        example = f"`mita {options.command} --queue mail --dry-run`"
        raise UsageError(
            f"name the jobs by id, or choose them with filters, for example {example}, or with "
            "--all"
        )
    return bool(chosen)


def is_bulk_run(context: CommandContext) -> bool:
    """Whether the options ask for a bulk run, which is a job of its own."""
    return context.options.rate is not None or bool(getattr(context.options, "set", None))


async def change_matching(context: CommandContext, method: BulkMethod) -> Report:
    """Change all jobs that match the filters, after a confirmation. `method` is the bulk method
    of the app, without filters."""
    options = context.options
    filters = {name: getattr(options, name) for name in FILTERS}
    with ExitStack() as stack:
        steps = _Steps(context, stack)
        result = await method(
            **filters,
            all=options.all,
            dry_run=options.dry_run,
            confirm=steps.confirm,
            progress=steps.advance,
        )
    answers = {answer.value: n for answer, n in result.answers.items()}
    data = {"matched": result.matched, "answers": answers, "dry_run": options.dry_run}
    if not answers:
        return Report(data, found(result.matched))
    lines = [counted_in_words(options.command, answer, n) for answer, n in result.answers.items()]
    all_done = set(result.answers) <= {Answer.DONE, Answer.ASKED}
    return Report(data, *lines, code=Exit.OK if all_done else Exit.FAILED)


def found(n: int) -> str:
    """`3 jobs match`."""
    return f"{counted(n, 'job')} {'matches' if n == 1 else 'match'}"


def ask(context: CommandContext, n: int) -> None:
    """Ask whether so many jobs shall be changed, unless there is `--yes`. Raises `CommandRefused`
    if not, and `UsageError` without a terminal."""
    screen, command = context.screen, context.options.command
    if context.options.yes:
        return
    if screen.json or not screen.can_ask:
        raise UsageError(
            f"{found(n)}, and there is no terminal to ask for confirmation: "
            f"pass --yes to {command} them, or --dry-run to count"
        )
    if not screen.confirm(f"{found(n)}. {command.capitalize()} {'it' if n == 1 else 'them'}?"):
        raise CommandRefused("nothing was done")


class _Steps:
    """What is shown meanwhile: a question, then a progress bar."""

    def __init__(self, context: CommandContext, stack: ExitStack) -> None:
        self._context, self._stack = context, stack
        self._bar: ProgressBar | None = None
        self._done = 0

    def confirm(self, n: int) -> bool:
        ask(self._context, n)
        self._bar = self._stack.enter_context(
            ProgressBar(self._context.screen, DOING[self._context.options.command], n)
        )
        return True

    def advance(self, done: int, _: int) -> None:
        if self._bar is not None:
            self._bar.advance(done - self._done)
        self._done = done
