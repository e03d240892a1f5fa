"""The command `signal`: give a job the value that its handler waits for."""

import sys
from typing import Any

import msgspec

from mita.errors import UsageError
from mita.model.outcome import Answer
from mita.model.record import JobRecord

from .answers import in_words
from .context import CommandContext, store_command
from .exits import Exit, NotFound
from .parser import Commands, reason_option
from .screen import Report, listed

_ABOUT = """The handler gets it from job.wait_for(NAME). If the
handler does not wait yet, the value is kept for it. Text needs quotes of its
own: '"yes"'."""


def add(commands: Commands) -> None:
    """Add the command to the parser."""
    parser = commands.add(
        "signal",
        store_command(signal_job),
        about=_ABOUT,
    )
    parser.add_argument("id", metavar="ID", help="a job id, or its first digits")
    parser.add_argument("name", metavar="NAME", help="the name of the signal")
    parser.add_argument(
        "value",
        metavar="JSON",
        nargs="?",
        help="the value as JSON; - reads it from stdin (default: null)",
    )
    reason_option(parser)


async def signal_job(context: CommandContext) -> Report:
    """Run `mita signal`."""
    options = context.options
    value = _value(options.value)
    id = await context.id_of(options.id)
    before = await context.app.get(id)
    if before is None:
        raise NotFound(f"job {id} was deleted just now")
    answer = await context.app.signal(id, options.name, value)
    words = await _in_words(context, before, answer)
    return Report(
        {"id": id, "signal": options.name, "answer": answer.value},
        f"{id}  {words}",
        code=Exit.OK if answer is Answer.DONE else Exit.FAILED,
    )


def _value(text: str | None) -> Any:
    if text is None:
        return None
    try:
        return msgspec.json.decode(sys.stdin.read() if text == "-" else text)
    except (msgspec.DecodeError, UnicodeError, RecursionError) as error:
        raise UsageError(
            f"the value of the signal is not JSON ({error}); text needs quotes of its own, for "
            "example '\"yes\"'"
        ) from error


async def _in_words(context: CommandContext, before: JobRecord, answer: Answer) -> str:
    """The answer in words. `before` is the job before it was signalled."""
    name = context.options.name
    waits = [wait.name for wait in before.waits_for]
    if answer is Answer.DONE:
        if name in waits:
            return "signalled: its handler goes on"
        others = f"; it waits for {listed([repr(wait) for wait in waits])}" if waits else ""
        return f"signalled: its handler does not wait for {name!r} now, the value is kept{others}"
    now = await context.app.get(before.id)
    if answer is not Answer.TAKEN:
        return in_words("signal", answer, now.state.value if now else "no longer in the store")
    if any(signal.timed_out for signal in (now or before).signals if signal.name == name):
        return f"not signalled: the wait for {name!r} has timed out"
    return f"not signalled: {name!r} was signalled before, and a name is signalled once"
