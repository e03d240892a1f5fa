"""Changing jobs: `reschedule`, `cancel`, `retry`, `delete`."""

from collections.abc import Awaitable, Callable
from functools import partial
from typing import Any

from mita.model.outcome import Answer
from mita.model.record import DisplayState

from .answers import in_words
from .bulk import bulk_options, by_filter, change_matching, is_bulk_run
from .bulk_runs import set_option, start_bulk
from .context import CommandContext, store_command
from .exits import Exit, NotFound
from .flows import FLOW_COMMANDS, change_flow, is_flow
from .inspect import filters
from .parser import Commands, reason_option, time_options
from .screen import Report
from .who import timeline_note

_IDS = "job ids, or their first digits"
_IDS_OF_FLOWS = "ids of jobs or of whole flows, or their first digits; FLOW.7 is step 7 of a flow"
_LIVE = [
    DisplayState.WAITING.value,
    DisplayState.SCHEDULED.value,
    DisplayState.READY.value,
    DisplayState.BLOCKED.value,
    DisplayState.RUNNING.value,
]
_DEAD = [DisplayState.FAILED.value, DisplayState.CANCELLED.value]


def add(commands: Commands) -> None:
    """Add the commands of this module to the parser."""
    reschedule = commands.add(
        "reschedule",
        store_command(reschedule_jobs),
        rest="ids",
    )
    reschedule.add_argument("ids", metavar="ID", nargs="*", help=_IDS)
    time_options(reschedule, required=True)
    reason_option(reschedule, timeline=True)
    bulk_options(reschedule)
    filters(reschedule, states=[*_LIVE, *_DEAD])
    cancel = commands.add(
        "cancel",
        store_command(cancel_jobs),
        rest="ids",
    )
    cancel.add_argument("ids", metavar="ID", nargs="*", help=_IDS_OF_FLOWS)
    reason_option(cancel, timeline=True)
    bulk_options(cancel)
    filters(cancel, states=_LIVE)
    retry = commands.add(
        "retry",
        store_command(retry_jobs),
        rest="ids",
    )
    retry.add_argument("ids", metavar="ID", nargs="*", help=_IDS_OF_FLOWS)
    time_options(retry)
    reason_option(retry, timeline=True)
    bulk_options(retry, "all jobs that match (failed jobs, unless --state is given)")
    set_option(retry)
    filters(retry, states=_DEAD)
    delete = commands.add(
        "delete",
        store_command(delete_jobs),
        rest="ids",
    )
    delete.add_argument("ids", metavar="ID", nargs="*", help=_IDS)
    reason_option(delete)
    bulk_options(delete)
    filters(delete, states=[DisplayState.SUCCEEDED.value, *_DEAD])


def _when(context: CommandContext) -> dict[str, Any]:
    """The new time and the reason, as the options name them."""
    options = context.options
    return {"at": options.at, "after": options.after, "reason": timeline_note(options.reason)}


async def reschedule_jobs(context: CommandContext) -> Report:
    """Run `mita reschedule`."""
    when, many = _when(context), context.app.reschedule_many
    start = context.app.start_bulk
    if by_filter(context):
        if is_bulk_run(context):
            return await start_bulk(
                context, partial(many, after=0), partial(start, "reschedule", **when)
            )
        return await change_matching(context, partial(many, **when))
    return await _each(context, partial(context.app.reschedule, **when))


async def cancel_jobs(context: CommandContext) -> Report:
    """Run `mita cancel`."""
    reason = timeline_note(context.options.reason)
    many, start = context.app.cancel_many, context.app.start_bulk
    if by_filter(context):
        if is_bulk_run(context):
            return await start_bulk(context, many, partial(start, "cancel", reason=reason))
        return await change_matching(context, partial(many, reason=reason))
    return await _each(context, partial(context.app.cancel, reason=reason))


async def retry_jobs(context: CommandContext) -> Report:
    """Run `mita retry`."""
    when, many = _when(context), context.app.retry_many
    start = context.app.start_bulk
    if by_filter(context):
        if is_bulk_run(context):
            return await start_bulk(context, many, partial(start, "retry", **when))
        return await change_matching(context, partial(many, **when))
    return await _each(context, partial(context.app.retry, **when))


async def delete_jobs(context: CommandContext) -> Report:
    """Run `mita delete`."""
    if not by_filter(context):
        return await _each(context, context.app.delete)
    many, start = context.app.delete_many, context.app.start_bulk
    if is_bulk_run(context):
        reason = timeline_note(context.options.reason)
        return await start_bulk(context, many, partial(start, "delete", reason=reason))
    return await change_matching(context, many)


# ---------------------------------------------------------------- by id


async def _each(context: CommandContext, change: Callable[[str], Awaitable[Answer]]) -> Report:
    """Return one answer for each id. An unknown id does not stop the others."""
    answers = [
        await _answer(context, id_text, change) for id_text in dict.fromkeys(context.options.ids)
    ]
    if len(answers) == 1 and answers[0][1] is Answer.UNKNOWN:
        await context.id_of(answers[0][0])
    all_done = all(answer in (Answer.DONE, Answer.ASKED) for _, answer, _ in answers)
    data = {"answers": [{"id": id, "answer": answer.value} for id, answer, _ in answers]}
    lines = [
        f"{id}  {words or await _in_words(context, id, answer)}" for id, answer, words in answers
    ]
    return Report(data, *lines, code=Exit.OK if all_done else Exit.FAILED)


async def _in_words(context: CommandContext, id: str, answer: Answer) -> str:
    now = await context.app.get(id) if answer is Answer.TOO_LATE else None
    return in_words(
        context.options.command, answer, now.state.value if now else "no longer in the store"
    )


async def _answer(
    context: CommandContext, id_text: str, change: Callable[[str], Awaitable[Answer]]
) -> tuple[str, Answer, str]:
    """The whole id, the answer, and for a flow the answer in words."""
    try:
        id = await context.id_of(id_text)
    except NotFound:
        return id_text, Answer.UNKNOWN, ""
    if context.options.command in FLOW_COMMANDS and await is_flow(context, id):
        return id, *await change_flow(context, id, timeline_note(context.options.reason))
    return id, await change(id), ""
