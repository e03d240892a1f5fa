"""What a command works with: the app, its store, the store's clock."""

import argparse
import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Collection, Sequence
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager
from datetime import datetime

from mita import Mita
from mita.errors import StoreMissing, UsageError
from mita.model.record import JobRecord
from mita.model.view import JobFilter
from mita.ports.store import Store
from mita.rules.display import as_datetime
from mita.rules.explain.evidence import APP
from mita.store_pool import shown_factory

from . import ids
from .exits import NotFound
from .loading import load
from .screen import Report, Screen
from .who import who

CHOOSE = (
    "choose the store with --app MODULE:APP ($MITA_APP) or --url ($MITA_URL), and its "
    "--namespace, or make this one with `mita migrate`"
)
_CANDIDATE_JOBS = 5  # jobs that are named when an id fits several
_NEIGHBOUR_PAGES = 10  # to read at most for the shortest ids; one page, if there are no flows


class CommandContext:
    """The context of one command."""

    def __init__(
        self, app: Mita, options: argparse.Namespace, screen: Screen, stack: AsyncExitStack
    ) -> None:
        self.app, self.options, self.screen = app, options, screen
        self._stack = stack
        self._store: Store | None = None

    async def store(self) -> Store:
        """Open a store, for what the app itself does not offer. It is closed with the command."""
        if self._store is None:
            self._store = await self.app.open_store()
            self._stack.push_async_callback(self._store.close)
        return self._store

    async def now(self) -> datetime:
        """The time on the store's clock."""
        return as_datetime(await (await self.store()).now())

    async def id_of(self, given: str) -> str:
        """Return the whole id for its first digits. Raises `UsageError` if they fit several
        jobs."""
        text = given.lower().replace("-", "")
        may_be_chosen = ids.may_be_chosen(given) and (text != given or not ids.is_id_prefix(text))
        if may_be_chosen and await self.app.get(given) is not None:
            return given
        if may_be_chosen and not ids.is_id_prefix(text):
            self._raise_unknown(given)
        if not ids.is_id_prefix(text):
            raise UsageError(
                f"{given!r} is not a job id: ids are {ids.ID_DIGITS} hexadecimal digits, or the "
                "first of them; a step of a flow has the id of the flow and its number, as in "
                "01a1de75c0de.7"
            )
        start = ids.first_part(text)
        if len(start) < ids.ID_DIGITS:
            found = await self._beginning_with(start)
            if given in [job.id for job in found]:  # one that a caller chose
                return given
            if len(found) > 1:
                raise UsageError(_ambiguous_id(given, found))
            if not found:
                self._raise_unknown(given)
            start = ids.first_part(found[0].id)
        id = start + ids.whole_rest(text)
        return id if await self.app.get(id) is not None else self._raise_unknown(given)

    async def id_in_outbox(self, given: str) -> str | None:
        """Return the whole id of a job that is in the outbox and not in the store; None if there is
        none, or if several fit."""
        if not self.app.has_outbox:
            return None
        outbox = self.app.outbox
        rows = await outbox.beginning(given, 2)
        rows = rows or await outbox.beginning(given.lower().replace("-", ""), 2)
        found = [row.id for row in rows if row.id == given] or [row.id for row in rows]
        return found[0] if len(found) == 1 and await self.app.get(found[0]) is None else None

    async def _beginning_with(self, start: str) -> list[JobRecord]:
        """Some jobs whose ids begin with these digits, newest first; one for each flow."""
        found: dict[str, JobRecord] = {}
        after = ids.first_id_after(start)
        while len(found) <= _CANDIDATE_JOBS:
            page = await self.app.jobs(after=after, limit=_CANDIDATE_JOBS + 1)
            jobs = [job for job in page.jobs if job.id.startswith(start)]
            found |= {ids.first_part(job.id): job for job in jobs}  # a flow is after its steps
            if page.after is None or len(jobs) < len(page.jobs):
                break
            after = _before_steps(page.after)
        return list(found.values())

    def command(self, name: str, *words: str) -> tuple[str, ...]:
        """The words of another `mita` command for the same app and store."""
        options = self.options
        app = [] if options.app is None or name in ("worker", "relay") else ["--app", options.app]
        url = [] if options.url is None else ["--url", options.url]
        namespace = [] if options.namespace is None else ["--namespace", options.namespace]
        return (
            name,
            *(options.app or word if word == APP else word for word in words),
            *app,
            *url,
            *namespace,
        )

    async def short_ids(self, wanted: Collection[str], neighbours: int) -> dict[str, str]:
        """Shorten ids for people: each gets as many digits as `id_of` needs. `neighbours`: how many
        jobs to read for that. An id that is not among them is not shortened; nor is any id if the
        output is for a program."""
        ours = [id for id in wanted if ids.is_ours(id)]
        if not ours or not self.screen.terminal:
            return {id: id for id in wanted}
        store, found = await self.store(), list[str]()
        after, oldest = ids.first_id_after(max(ours)[: ids.TIME_DIGITS]), min(ours)
        for _ in range(_NEIGHBOUR_PAGES):
            page = await store.page(JobFilter(), after, neighbours)
            found += [job.id for job in page.jobs]
            if page.after is None or "." not in page.after:
                break
            if ids.first_part(page.after) < ids.first_part(oldest):
                break
            after = _before_steps(page.after)
        return ids.shortened(wanted, found, complete=page.after is None)

    @staticmethod
    def _raise_unknown(given: str) -> str:
        raise NotFound(
            f"no job {given} is in the store: it never was, or it ended and was deleted; "
            "`mita jobs` lists the jobs"
        )


def _before_steps(id: str) -> str:
    """The cursor that leaves out the other steps of the same flow, but not the flow itself."""
    return f"{ids.first_part(id)}." if "." in id else id


def _ambiguous_id(given: str, found: Sequence[JobRecord]) -> str:
    """The error for an id that fits several jobs: it lists them, newest first, with as many digits
    as distinguish them. The last of many is not shown, because its neighbour is not known."""
    many = len(found) > _CANDIDATE_JOBS
    short = ids.shortened([job.id for job in found], [job.id for job in found], complete=not many)
    shown = [f"{short[job.id]} ({job.task}, {job.state.value})" for job in found[:_CANDIDATE_JOBS]]
    return (
        f"more than one job id begins with {given}: "
        f"{', '.join(shown)}{' and others' if many else ''}; give more digits"
    )


def store_command(
    command: Callable[[CommandContext], Awaitable[Report]], *, creates_store: bool = False
) -> Callable[[argparse.Namespace, Screen], int]:
    """Return a command that works on an opened app. `creates_store`: it may create the store."""

    def run(options: argparse.Namespace, screen: Screen) -> int:
        return screen.show(asyncio.run(run_command(command, options, screen, creates_store)))

    return run


async def run_command(
    command: Callable[[CommandContext], Awaitable[Report]],
    options: argparse.Namespace,
    screen: Screen,
    creates_store: bool = False,
) -> Report:
    """Run a command on an opened app, and close the app. Returns the report. Raises
    `StoreMissing`, with advice, if there is no store and the command may not create one."""
    async with AsyncExitStack() as stack:
        app = await stack.enter_async_context(open_app(options, options.app, create=creates_store))
        try:
            if hasattr(options, "reason"):  # it changes something (`parser.reason_option`)
                stack.enter_context(app.acting(who(), options.reason, via="cli"))
            return await command(CommandContext(app, options, screen, stack))
        except StoreMissing as error:
            raise StoreMissing(f"{error}: {CHOOSE}") from error


@asynccontextmanager
async def open_app(
    options: argparse.Namespace, target: str | None, *, create: bool = True
) -> AsyncIterator[Mita]:
    """Open the app of `module:app`, or one without tasks, on the store of `--url` and
    `--namespace`. `create=False`: raise `StoreMissing` if there is no store."""
    app = Mita(options.url, namespace=options.namespace) if target is None else load(target)
    overridden = options.url is not None or options.namespace is not None
    async with AsyncExitStack() as stack:
        if target is not None and overridden:
            url = options.url or app.url.text
            other = app.using(url, namespace=options.namespace, create=create)
            await stack.enter_async_context(other)
        elif not create:
            await stack.enter_async_context(_existing_store(app))
        stack.push_async_callback(app.close)
        yield app


def _existing_store(app: Mita) -> AbstractAsyncContextManager[Mita]:
    """The same store, which must be there already."""
    if app.store_factory is not None:
        return app.using(store=app.store_factory, create=False)
    return app.using(app.url.text, namespace=app.url.namespace, create=False)


def store_text(app: Mita) -> str:
    """Where the app's jobs are stored, without anything secret."""
    if app.store_factory is not None:
        return shown_factory(app.store_factory)
    url = app.url
    if url.scheme == "sqlite":
        return f"sqlite file {url.path.absolute()}"
    rest = url.text.split("://", 1)[1].split("?", 1)[0]
    return f"{url.scheme}://{rest.rsplit('@', 1)[-1]}"


def namespace_of(app: Mita) -> str:
    """The namespace of the app's jobs; empty for a store that was made by the app's own factory."""
    return app.url.namespace if app.store_factory is None else ""


def location(app: Mita) -> str:
    """The store and the namespace, in words."""
    namespace = namespace_of(app)
    return f"{store_text(app)}, namespace {namespace}" if namespace else store_text(app)
