"""The command `amend`: other arguments for a job."""

from mita.errors import UsageError
from mita.model.outcome import Answer

from .answers import in_words
from .argtypes import named_arguments
from .context import CommandContext, store_command
from .exits import Exit, NotFound
from .parser import Commands, reason_option
from .screen import Report
from .who import timeline_note

_ABOUT = """Each change is NAME=VALUE. The other arguments stay. A VALUE is used as
it is where the task takes text; elsewhere it is read as JSON: 42, true,
'[1, 2]'. All arguments are checked against the annotations of the task before
anything is stored. A failed job stays failed: `mita retry ID` runs it again."""


def add(commands: Commands) -> None:
    """Add the command to the parser."""
    parser = commands.add(
        "amend",
        store_command(amend_job),
        about=_ABOUT,
        rest="changes",
    )
    parser.add_argument("id", metavar="ID", help="a job id, or its first digits")
    parser.add_argument("changes", metavar="NAME=VALUE", nargs="+", help="an argument to change")
    reason_option(parser, timeline=True)


async def amend_job(context: CommandContext) -> Report:
    """Run `mita amend`."""
    options = context.options
    if options.app is None:
        raise UsageError(
            "which app has the task of this job? Its arguments are checked against it: pass --app "
            "MODULE:APP, for example --app jobs:app, or set $MITA_APP"
        )
    id = await context.id_of(options.id)
    job = await context.app.get(id)
    if job is None:
        raise NotFound(f"job {id} was deleted just now")
    changes = named_arguments(context.app.find_task(job.task), options.changes)
    answer = await context.app.amend(id, arguments=changes, reason=timeline_note(options.reason))
    now = await context.app.get(id) if answer is Answer.TOO_LATE else None
    state = now.state.value if now else "no longer in the store"
    words = f"changed: {', '.join(changes)}" if answer is Answer.DONE else ""
    return Report(
        {"id": id, "changed": list(changes), "answer": answer.value},
        f"{id}  {words or in_words('amend', answer, state)}",
        code=Exit.OK if answer is Answer.DONE else Exit.FAILED,
    )
