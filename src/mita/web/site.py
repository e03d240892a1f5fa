"""The dashboard as an ASGI app: it joins the routes, the guard, the templates and the live feed."""

import logging
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response
from starlette.routing import Route as StarletteRoute
from starlette.types import ASGIApp, Scope

from mita.app import Mita
from mita.errors import MitaError, StoreError, UsageError

from . import shown
from .aged import AgedValues
from .bulk_server import BulkServer
from .guard import Access, Authorize, Guard, checked_hosts
from .live import LiveFeed
from .place import path_of, root_of
from .prefix import BelowPrefix, checked_prefix
from .routes import ROUTES, Route
from .visit import NotHere, Visit

log = logging.getLogger("mita.web")

SHORTEST_TOKEN_CHARACTERS = 16


class Site:
    """What all requests share."""

    def __init__(self, app: Mita, title: str, access: Access) -> None:
        self.app, self.title, self.access = app, title, access
        self.feed = LiveFeed(app)
        self.aged = AgedValues(self.feed.wake)
        self._templates = Environment(
            loader=PackageLoader("mita.web"),
            autoescape=True,
            undefined=StrictUndefined,
            trim_blocks=True,
            lstrip_blocks=True,
        )
        self._templates.filters.update(shown.FILTERS)
        self._templates.globals.update(site=self, **shown.GLOBALS)
        for name in self._templates.list_templates():
            self._templates.get_template(name)  # read now, so that no visitor waits for it
        self.guard: Guard | None = None
        self.bulk_runs = BulkServer(app)

    def render(self, template: str, **values: Any) -> str:
        """Return a page as text."""
        return self._templates.get_template(template).render(**values)

    @asynccontextmanager
    async def lifespan(self, _: object) -> AsyncIterator[None]:
        """Go on with bulk runs that were interrupted. End what runs in the background when the
        server stops."""
        if not self.access.read_only:
            await self.bulk_runs.start()
        try:
            yield
        finally:
            await self.feed.close()
            await self.bulk_runs.close()

    async def serve_bulk_runs(self) -> None:
        """Run bulk runs in this process, too: there may be no worker that serves their queue."""
        await self.bulk_runs.start()


def dashboard(
    app: Mita,
    *,
    token: str | None = None,
    authorize: Authorize | None = None,
    read_only: bool = False,
    hosts: Sequence[str] = (),
    prefix: str = "",
    title: str = "",
) -> ASGIApp:
    """Return the dashboard of an app, an ASGI app to serve or to mount.

    Without `token` and `authorize` it answers only this machine. With a `token`, visitors give it
    once. `authorize` is your own check: a function, async or not, that gets the request and returns
    a role (`"read"`, `"operate"` or `"admin"`), or a pair of a role and the visitor's name for the
    audit log, or None to refuse, or a response, for example a redirect to your login page.
    `read_only` lets everybody only read. `hosts` are the names by which it is reached; others are
    refused. `prefix` is the path at which a proxy shows it; what mounts it in Starlette or FastAPI
    says so by itself. `title` is shown on each page, for example `"production"`.

    Raises `UsageError` if `app` is not a Mita app, for a token that is too short, and for a prefix
    that is not a path."""
    if not isinstance(app, Mita):
        raise UsageError(f"dashboard({app!r}): give a Mita app")
    if token is not None and authorize is not None:
        raise UsageError("token= and authorize=: give one of them")
    if token is not None and len(token) < SHORTEST_TOKEN_CHARACTERS:
        raise UsageError(f"the token is too short: {SHORTEST_TOKEN_CHARACTERS} characters at least")
    access = Access(
        token=token, authorize=authorize, read_only=read_only, hosts=checked_hosts(hosts)
    )
    site = Site(app, title, access)
    inner = Starlette(
        routes=[
            StarletteRoute(route.path, _endpoint(site, route), methods=[route.method])
            for route in ROUTES
        ],
        exception_handlers={404: _not_found(site), 405: _no_method},
        lifespan=site.lifespan,
    )
    inner.router.redirect_slashes = False  # it would send browsers to http, behind a proxy too
    site.guard = Guard(inner, access)
    return BelowPrefix(site.guard, prefix) if checked_prefix(prefix) else site.guard


def _endpoint(site: Site, route: Route) -> Any:
    async def answer(request: Request) -> Response:
        visit = Visit(site, request)
        if route.role is not None and not visit.may(route.role):
            text = f"This needs the role {route.role.label!r}."
            return _failed(visit, 403, "You may not do this", text)
        try:
            return await route.handler(visit)
        except NotHere as error:
            return _failed(visit, 404, "Not found", str(error))
        except UsageError as error:
            return _failed(visit, 400, "That did not work", str(error))
        except StoreError as error:
            log.warning("the store failed: %s", error)
            text = "The store cannot be reached now. Reload this page in a moment."
            return _failed(visit, 503, "No answer from the store", text)
        except MitaError as error:
            return _failed(visit, 400, "That did not work", str(error))
        except Exception:
            log.exception("the page %s failed", route.path)
            return _failed(visit, 500, "This page failed", "The log of the dashboard says why.")

    return answer


def _failed(visit: Visit, status: int, headline: str, text: str) -> Response:
    return visit.render("failed.html", status, headline=headline, text=text)


def _not_found(site: Site) -> Any:
    async def answer(request: Request, _: Exception) -> Response:
        visit = Visit(site, request)
        if visit.visitor is None:
            return PlainTextResponse("not found\n", 404)
        if (path := _without_slash(request.scope)) is not None and request.method == "GET":
            return visit.go(visit.url(path))
        return _failed(visit, 404, "Not found", "There is no such page.")

    return answer


def _without_slash(scope: Scope) -> str | None:
    """The path of the page that a path with a slash too many or too few means; None: no page. A
    path with two slashes could lead to another machine."""
    path = path_of(scope)
    if scope["path"] == root_of(scope):
        return "/"
    return path.rstrip("/") if path.endswith("/") and path != "/" and "//" not in path else None


async def _no_method(_: Request, __: Exception) -> Response:
    return PlainTextResponse("This page does not take that method.\n", 405)
