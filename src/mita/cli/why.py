"""Why a job or a flow is not running: `why`."""

from msgspec.structs import replace

from mita.printable import shell_command
from mita.rules.explain.evidence import Reason

from .context import CommandContext, store_command
from .inspect import ID_HELP
from .parser import Commands
from .screen import Report


def add(commands: Commands) -> None:
    """Add the command of this module to the parser."""
    why = commands.add(
        "why",
        store_command(explain),
    )
    why.add_argument("id", metavar="ID", help=ID_HELP)


async def explain(context: CommandContext) -> Report:
    """Run `mita why`."""
    id = await context.id_in_outbox(context.options.id)
    if id is None:
        id = await context.id_of(context.options.id)
    reasons = await context.app.explain(id)
    reasons = [_here(context, reason) for reason in reasons]
    lines = [
        line
        for reason in reasons
        for line in (reason.text, reason.remedy and f"  → {reason.remedy}")
        if line
    ]
    return Report({"id": id, "reasons": reasons}, *lines)


def _here(context: CommandContext, reason: Reason) -> Reason:
    """The remedy with the command as the user has to type it, for the same app and store."""
    if not reason.command:
        return reason
    command = context.command(*reason.command)
    advice = reason.remedy.removesuffix(shell_command(("mita", *reason.command)))
    return replace(reason, remedy=advice + shell_command(("mita", *command)), command=command)
