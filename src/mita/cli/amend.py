"""Changing jobs: `reschedule`, `cancel`, `retry`, `delete`."""

import argparse
import getpass
import os
import socket
from collections.abc import Awaitable, Callable
from functools import partial
from typing import Any

from mita.model.outcome import Answer
from mita.model.record import DisplayState

from .answers import in_words
from .bulk import all_that_match, bulk_options, by_filter
from .context import Desk, at_desk
from .exits import Exit, NotFound
from .inspect import filters
from .parser import Commands, time_options
from .screen import Report

_IDS = "job ids, or their first digits"
_LIVE = [
    DisplayState.SCHEDULED.value,
    DisplayState.READY.value,
    DisplayState.BLOCKED.value,
    DisplayState.RUNNING.value,
]
_DEAD = [DisplayState.FAILED.value, DisplayState.CANCELLED.value]


def add(commands: Commands) -> None:
    reschedule = commands.add(
        "reschedule",
        at_desk(move),
        "run jobs at another time; failed jobs are retried then",
        rest="ids",
    )
    reschedule.add_argument("ids", metavar="ID", nargs="*", help=_IDS)
    time_options(reschedule, required=True)
    reschedule.add_argument(
        "--reason", default="", help="stored in the job's timeline, with your user name"
    )
    bulk_options(reschedule)
    filters(reschedule, states=[*_LIVE, *_DEAD])
    cancel = commands.add(
        "cancel", at_desk(stop), "cancel jobs; running jobs are asked to stop", rest="ids"
    )
    cancel.add_argument("ids", metavar="ID", nargs="*", help=_IDS)
    cancel.add_argument(
        "--reason", default="", help="stored in the job's timeline, with your user name"
    )
    bulk_options(cancel)
    filters(cancel, states=_LIVE)
    retry = commands.add(
        "retry",
        at_desk(revive),
        "run failed or cancelled jobs again, with their counters at zero",
        rest="ids",
    )
    retry.add_argument("ids", metavar="ID", nargs="*", help=_IDS)
    time_options(retry)
    retry.add_argument(
        "--reason", default="", help="stored in the job's timeline, with your user name"
    )
    bulk_options(retry, "all jobs that match (failed jobs, unless --state is given)")
    filters(retry, states=_DEAD)
    delete = commands.add(
        "delete",
        at_desk(forget),
        "delete jobs that have ended",
        rest="ids",
    )
    delete.add_argument("ids", metavar="ID", nargs="*", help=_IDS)
    bulk_options(delete)
    filters(delete, states=[DisplayState.SUCCEEDED.value, *_DEAD])


def asked(options: argparse.Namespace) -> str:
    """The note for the timeline: the reason, if one was given, and the name of the user."""
    return f"{options.reason}; {_asker()}" if options.reason else _asker()


def _asker() -> str:
    try:
        return f"by {getpass.getuser()} on {socket.gethostname()}"
    except (OSError, KeyError, ImportError):  # a user without a name
        return f"by user {os.getuid()} on {socket.gethostname()}"


async def move(desk: Desk) -> Report:
    options = desk.options
    when: dict[str, Any] = {"at": options.at, "after": options.after, "reason": asked(options)}
    if by_filter(desk):
        return await all_that_match(desk, partial(desk.app.reschedule_many, **when))
    return await _each(desk, partial(desk.app.reschedule, **when))


async def stop(desk: Desk) -> Report:
    if by_filter(desk):
        return await all_that_match(desk, partial(desk.app.cancel_many, reason=asked(desk.options)))
    return await _each(desk, partial(desk.app.cancel, reason=asked(desk.options)))


async def revive(desk: Desk) -> Report:
    options = desk.options
    when: dict[str, Any] = {"at": options.at, "after": options.after, "reason": asked(options)}
    if by_filter(desk):
        return await all_that_match(desk, partial(desk.app.retry_many, **when))
    return await _each(desk, partial(desk.app.retry, **when))


async def forget(desk: Desk) -> Report:
    return await (
        all_that_match(desk, desk.app.delete_many)
        if by_filter(desk)
        else _each(desk, desk.app.delete)
    )


# ---------------------------------------------------------------- by id


async def _each(desk: Desk, ask: Callable[[str], Awaitable[Answer]]) -> Report:
    """Return one answer for each id. An unknown id does not stop the others."""
    answers = [await _answer(desk, given, ask) for given in dict.fromkeys(desk.options.ids)]
    if len(answers) == 1 and answers[0][1] is Answer.UNKNOWN:
        await desk.id_of(answers[0][0])
    went_well = all(answer in (Answer.DONE, Answer.ASKED) for _, answer in answers)
    data = {"answers": [{"id": id, "answer": answer.value} for id, answer in answers]}
    lines = [f"{id}  {await _in_words(desk, id, answer)}" for id, answer in answers]
    return Report(data, *lines, code=Exit.OK if went_well else Exit.FAILED)


async def _in_words(desk: Desk, id: str, answer: Answer) -> str:
    now = await desk.app.get(id) if answer is Answer.TOO_LATE else None
    return in_words(
        desk.options.command, answer, now.state.value if now else "no longer in the store"
    )


async def _answer(
    desk: Desk, given: str, ask: Callable[[str], Awaitable[Answer]]
) -> tuple[str, Answer]:
    try:
        id = await desk.id_of(given)
    except NotFound:
        return given, Answer.UNKNOWN
    return id, await ask(id)
