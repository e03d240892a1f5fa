"""One request to the dashboard, as a page or an act sees it."""

from collections.abc import Awaitable, Callable
from contextlib import AbstractContextManager
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any
from urllib.parse import parse_qsl, quote, unquote, urlencode, urlsplit

from msgspec import Struct
from starlette.requests import Request
from starlette.responses import HTMLResponse, RedirectResponse, Response

from mita.app import Mita
from mita.errors import UsageError
from mita.model.view import QueueView
from mita.rules.own_tasks import BULK_QUEUE

from .guard import VISITOR
from .place import path_of, root_of
from .roles import Role, Visitor

if TYPE_CHECKING:
    from .site import Site

MOST_FORM_BYTES = 1_000_000
MOST_PAGE_JOBS = 200
_NOTE_COOKIE = "mita_note"
_NOTE_CHARACTERS = 600
_NOTE_S = 60

Handler = Callable[["Visit"], Awaitable[Response]]


class NotHere(Exception):
    """What the address names is not there: it never was, or it was deleted."""


class Form(Struct, frozen=True):
    """The fields of a form that was sent."""

    fields: tuple[tuple[str, str], ...]

    def get(self, name: str) -> str:
        """Return the first value of a field; empty if it was not sent."""
        return next((value for field, value in self.fields if field == name), "").strip()

    def all(self, name: str) -> list[str]:
        """Return all values of a field."""
        return [value for field, value in self.fields if field == name]


class Visit:
    """A request: the app, who sent it, and what it asks for."""

    def __init__(self, site: "Site", request: Request) -> None:
        self.site, self.request = site, request
        self.now = datetime.now(UTC)
        found = request.scope.get(VISITOR)
        self.visitor = found if isinstance(found, Visitor) else None

    @property
    def app(self) -> Mita:
        """The app whose jobs are shown."""
        return self.site.app

    async def queues(self) -> list[QueueView]:
        """The queues of users' jobs."""
        return [queue for queue in await self.app.queues() if queue.name != BULK_QUEUE]

    def may(self, role: Role) -> bool:
        """Whether the visitor has this role, or a higher one."""
        return self.visitor is not None and self.visitor.role >= role

    @property
    def may_operate(self) -> bool:
        """Whether the visitor may change single jobs, and see arguments."""
        return self.may(Role.OPERATE)

    @property
    def may_admin(self) -> bool:
        """Whether the visitor may change many jobs at once."""
        return self.may(Role.ADMIN)

    def acting(self, why: str = "") -> AbstractContextManager[object]:
        """What is changed in this block is written to the audit log, with who and why."""
        who = "dashboard" if self.visitor is None else self.visitor.name
        return self.app.acting(who, why, via="web")

    # ------------------------------------------------------------ what it asks for

    def part(self, name: str) -> str:
        """Return a part of the path, for example the id of a job."""
        return str(self.request.path_params[name])

    def query(self, name: str) -> str | None:
        """Return a value of the query; None if it is missing or empty."""
        return self.request.query_params.get(name) or None

    def number(self, name: str, default: int, most: int) -> int:
        """Return a number of the query, from 1 to `most`; the default if it is none."""
        given = self.query(name) or ""
        return min(max(int(given), 1), most) if given.isdecimal() and len(given) < 9 else default

    async def form(self) -> Form:
        """Return the fields of the form. Raises `UsageError` if it is too large."""
        body = b""
        async for part in self.request.stream():
            body += part
            if len(body) > MOST_FORM_BYTES:
                raise UsageError(f"the form is too large: {MOST_FORM_BYTES:,} bytes at most")
        fields = parse_qsl(body.decode("utf-8", "replace"), keep_blank_values=True)
        return Form(tuple(fields))

    # ------------------------------------------------------------ what it answers

    @property
    def root(self) -> str:
        """The path at which the dashboard is mounted; empty for the root."""
        return root_of(self.request.scope)

    @property
    def path(self) -> str:
        """The path below the root, as the routes have it."""
        return path_of(self.request.scope)

    def url(self, path: str, /, **query: object) -> str:
        """Return the address of a page. Values that are None or empty are left out."""
        given = {name: str(value) for name, value in query.items() if value not in (None, "")}
        return f"{self.root}{quote(path)}{'?' + urlencode(given) if given else ''}"

    def here(self, /, **changes: object) -> str:
        """Return the address of this page with some values of its query changed."""
        query: dict[str, object] = dict(self.request.query_params.items())
        return self.url(self.path, **{**query, **changes})

    def render(self, template: str, status: int = 200, **values: Any) -> Response:
        """Return a page."""
        note = unquote(self.request.cookies.get(_NOTE_COOKIE, ""))
        values = {"visit": self, "note": note, **values}
        response = HTMLResponse(self.site.render(template, **values), status)
        if note:
            response.delete_cookie(_NOTE_COOKIE, path=self.root or "/")
        return response

    def go(self, address: str) -> Response:
        """Send the browser to another page of the dashboard."""
        return RedirectResponse(address, 303)

    def done(self, text: str, then: str | None = None) -> Response:
        """After an act: go back to the page of the form (or to `then`), which shows the text."""
        self.site.aged.forget()
        response = self.go(then or self._came_from())
        response.set_cookie(
            _NOTE_COOKIE,
            quote(text[:_NOTE_CHARACTERS]),
            max_age=_NOTE_S,
            path=self.root or "/",
            httponly=True,
            samesite="strict",
        )
        return response

    def _came_from(self) -> str:
        """The page that the form was on; the overview if it is not known. The guard has checked
        that it was one of ours."""
        address = urlsplit(self.request.headers.get("referer", ""))
        path = address.path
        if not path.startswith(f"{self.root}/") or path.startswith("//"):
            return self.url("/")
        return f"{path}?{address.query}" if address.query else path
