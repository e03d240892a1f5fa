"""The command `audit`: who changed what."""

from mita.model.audit import AuditLine

from .argtypes import count
from .context import CommandContext, store_command
from .parser import Commands
from .screen import Report, listed
from .table import Column, Table

_ABOUT = """Every command that changes something writes a line, also if it was refused;
programs do so within app.acting(…). The newest 100,000 lines are kept, for
400 days. Set $MITA_WHO if the name of the system's user is not who acts."""
_COLUMNS = (
    "time (UTC)",
    Column("who", drop_order=1, min_width=6),
    Column("via", drop_order=6),
    "what",
    Column("target", drop_order=2, min_width=12),
    Column("jobs", right=True, drop_order=4),
    Column("result", drop_order=3, min_width=8),
    Column("why", drop_order=5, min_width=8),
)


def add(commands: Commands) -> None:
    """Add the command to the parser."""
    parser = commands.add("audit", store_command(show_audit), about=_ABOUT)
    parser.add_argument("--who", metavar="NAME", help="only what this person did")
    parser.add_argument("--what", metavar="VERB", help="only this verb: retry, cancel, pause, …")
    parser.add_argument(
        "--target", metavar="TEXT", help="only targets with this text: a job's id, a queue, a key"
    )
    parser.add_argument(
        "--limit", type=count, default=20, help="lines on one page (20; at most 1000)"
    )
    parser.add_argument(
        "--after", metavar="CURSOR", help="continue after this id, the last one of the page before"
    )


async def show_audit(context: CommandContext) -> Report:
    """Run `mita audit`."""
    options = context.options
    chosen = {name: getattr(options, name) for name in ("who", "what", "target")}
    page = await context.app.audit(after=options.after, limit=options.limit, **chosen)
    data = {"entries": page.entries, "after": page.after}
    if not page.entries:
        asked = any(chosen.values()) or options.after
        return Report(data, "no lines match" if asked else "nothing was changed by hand so far")
    more = ["", f"more: add --after {page.after}"] if page.after else []
    return Report(data, Table(_COLUMNS, [_row(line) for line in page.entries]), *more)


def _row(line: AuditLine) -> tuple[object, ...]:
    return (
        f"{line.at:%Y-%m-%d %H:%M:%S}",
        line.who,
        line.via,
        line.what,
        _target(line),
        line.count or "",
        line.result,
        line.why,
    )


def _target(line: AuditLine) -> str:
    """The target, with the plain facts about what was asked: `queue mail (concurrency 3)`."""
    facts = [
        f"{name} {value}"
        for name, value in line.details.items()
        if isinstance(value, str | int | float) and name != "matched"
    ]
    return f"{line.target} ({listed(facts)})" if facts else line.target
