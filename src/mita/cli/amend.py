"""Asking something of jobs: `reschedule`, `cancel`, `retry`."""

import argparse
import asyncio
import getpass
import os
import socket
from collections import Counter
from collections.abc import Awaitable, Callable

from mita.errors import UsageError
from mita.model.outcome import Answer
from mita.model.record import Shown

from .answers import counted_in_words, in_words
from .desk import Desk, at_desk
from .exits import Exit, NotFound, Refused
from .look import FILTERS, filters
from .parser import Commands, time_options
from .progress import Progress
from .screen import Report
from .words import counted

PAGE = 1000
TOGETHER = 250  # asked at once: a store writes calls that come together in one go


def add(commands: Commands) -> None:
    reschedule = commands.add("reschedule", at_desk(move), "run jobs at another time, attempts unchanged", rest="ids")
    reschedule.add_argument("ids", metavar="ID", nargs="+", help="job ids, or their first digits")
    time_options(reschedule, required=True)
    reschedule.add_argument("--reason", default="", help="kept in the job's timeline, beside who asked")
    cancel = commands.add("cancel", at_desk(stop), "do not run jobs any more; running ones are told", rest="ids")
    cancel.add_argument("ids", metavar="ID", nargs="+", help="job ids, or their first digits")
    cancel.add_argument("--reason", default="", help="kept in the job's timeline, beside who asked")
    retry = commands.add("retry", at_desk(revive), "run failed or cancelled jobs again, counters at zero", rest="ids")
    retry.add_argument("ids", metavar="ID", nargs="*", help="job ids, or their first digits")
    retry.add_argument("--all", action="store_true", help="all that match; failed ones unless --state says otherwise")
    retry.add_argument("--yes", action="store_true", help="do not ask, with --all")
    retry.add_argument("--dry-run", action="store_true", help="only count them, with --all")
    filters(retry, states=[Shown.FAILED.value, Shown.CANCELLED.value])


def asked(options: argparse.Namespace) -> str:
    """For the timeline: why, if that was said, and who sits at this terminal."""
    return f"{options.reason}; {_asker()}" if options.reason else _asker()


def _asker() -> str:
    try:
        return f"by {getpass.getuser()} on {socket.gethostname()}"
    except (OSError, KeyError, ImportError):  # a user without a name
        return f"by user {os.getuid()} on {socket.gethostname()}"


async def move(desk: Desk) -> Report:
    options = desk.options
    at, after, reason = options.at, options.after, asked(options)
    return await _each(desk, lambda job: desk.app.reschedule(job, at=at, after=after, reason=reason))


async def stop(desk: Desk) -> Report:
    return await _each(desk, lambda job: desk.app.cancel(job, asked(desk.options)))


async def revive(desk: Desk) -> Report:
    options = desk.options
    chosen = any(getattr(options, name) for name in FILTERS)
    if options.ids and (options.all or chosen):
        raise UsageError("name jobs by id, or choose them with --all and filters, but not both")
    if options.all:
        return await _revive_all(desk)
    if chosen or not options.ids:
        raise UsageError("say which jobs: their ids, or --all, for example `mita retry --all --queue mail --error Timeout`")
    return await _each(desk, desk.app.retry)


# ---------------------------------------------------------------- by id


async def _each(desk: Desk, ask: Callable[[str], Awaitable[Answer]]) -> Report:
    """One answer for each id. One that is not there does not keep the others from being asked."""
    answers = [await _answer(desk, given, ask) for given in dict.fromkeys(desk.options.ids)]
    if len(answers) == 1 and answers[0][1] is Answer.UNKNOWN:
        await desk.id_of(answers[0][0])
    went_well = all(answer in (Answer.DONE, Answer.ASKED) for _, answer in answers)
    data = {"answers": [{"id": id, "answer": answer.value} for id, answer in answers]}
    lines = [f"{id}  {await _in_words(desk, id, answer)}" for id, answer in answers]
    return Report(data, *lines, code=Exit.OK if went_well else Exit.FAILED)


async def _in_words(desk: Desk, id: str, answer: Answer) -> str:
    now = await desk.app.get(id) if answer is Answer.TOO_LATE else None
    return in_words(desk.options.command, answer, now.state.value if now else "no longer in the store")


async def _answer(desk: Desk, given: str, ask: Callable[[str], Awaitable[Answer]]) -> tuple[str, Answer]:
    try:
        id = await desk.id_of(given)
    except NotFound:
        return given, Answer.UNKNOWN
    return id, await ask(id)


# ---------------------------------------------------------------- all that match


async def _revive_all(desk: Desk) -> Report:
    options = desk.options
    ids = await _matching(desk)
    found = f"{counted(len(ids), 'job')} {'matches' if len(ids) == 1 else 'match'}"
    if options.dry_run or not ids:
        return Report({"matched": len(ids), "answers": {}, "dry_run": options.dry_run}, found)
    if not options.yes:
        _ask_first(desk, found, len(ids))
    answers = await _revive_these(desk, ids)
    data = {"matched": len(ids), "answers": answers, "dry_run": False}
    lines = [counted_in_words("retry", Answer(answer), n) for answer, n in answers.items()]
    code = Exit.OK if set(answers) <= {Answer.DONE.value} else Exit.FAILED
    return Report(data, *lines, code=code)


def _ask_first(desk: Desk, found: str, n: int) -> None:
    if desk.screen.json or not desk.screen.asks:
        raise UsageError(
            f"{found}, and there is no terminal to ask for confirmation: pass --yes to retry them, or --dry-run to count"
        )
    if not desk.screen.confirm(f"{found}. Retry {'it' if n == 1 else 'them'}?"):
        raise Refused("nothing was done")


async def _matching(desk: Desk) -> list[str]:
    """What is counted now is what will be retried, whatever fails in the meantime."""
    want = {name: getattr(desk.options, name) for name in FILTERS}
    want["state"] = want["state"] or Shown.FAILED.value
    ids: list[str] = []
    after: str | None = None
    while True:
        page = await desk.app.jobs(**want, after=after, limit=PAGE)
        ids += [job.id for job in page.jobs]
        if (after := page.after) is None:
            return ids


async def _revive_these(desk: Desk, ids: list[str]) -> dict[str, int]:
    answers: Counter[str] = Counter()
    with Progress(desk.screen, "retrying", len(ids)) as progress:
        for start in range(0, len(ids), TOGETHER):
            some = ids[start : start + TOGETHER]
            answers.update(await asyncio.gather(*(_revive_one(desk, id) for id in some)))
            progress.advance(len(some))
    return dict(answers)


async def _revive_one(desk: Desk, id: str) -> str:
    try:
        return (await desk.app.retry(id)).value
    except UsageError:  # forgotten since it was counted
        return Answer.UNKNOWN.value
