"""Serves the dashboard below a path: behind a proxy, or in a framework that does not say where it
has mounted it."""

import re
from urllib.parse import unquote_to_bytes

from starlette.responses import PlainTextResponse
from starlette.types import ASGIApp, Receive, Scope, Send

from mita.errors import UsageError

from .place import is_below
from .routes import ROUTES

_PREFIX = re.compile(r"(/[A-Za-z0-9._~-]+)+")
_PAGES = frozenset(route.path.split("/")[1] for route in ROUTES) - {""}


def checked_prefix(given: str) -> str:
    """Return the prefix without a slash at its end; empty for none. Raises `UsageError` if it is
    not a path."""
    prefix = given.rstrip("/")
    if prefix and (not _PREFIX.fullmatch(prefix) or {".", ".."} & set(prefix.split("/"))):
        raise UsageError(
            f"the prefix {given!r} is not a path: write it as /jobs, with letters, digits and -._~"
        )
    return prefix


def _sent_path(scope: Scope) -> str:
    """The path as the browser or the proxy sent it. A framework that mounts the dashboard may have
    changed `path`: Litestar adds a slash to its end."""
    raw = scope.get("raw_path")
    if isinstance(raw, bytes):
        return unquote_to_bytes(raw.partition(b"?")[0]).decode("utf-8", "replace")
    return str(scope["path"])


class BelowPrefix:
    """An ASGI app in front of the dashboard. Its links have the prefix, whether what is before it
    (a proxy, a framework) takes the prefix away from the requests or not.

    A prefix that is also the name of a page, such as /jobs, would leave open which is meant. There
    the proxy must leave the prefix in the requests, and one that does not is told so."""

    def __init__(self, inner: ASGIApp, prefix: str) -> None:
        self._inner, self._prefix = inner, checked_prefix(prefix)
        self._is_page = self._prefix.lstrip("/").partition("/")[0] in _PAGES

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request."""
        if not self._prefix or scope["type"] != "http":
            await self._inner(scope, receive, send)
            return
        path = _sent_path(scope)
        if not is_below(path, self._prefix):
            if self._is_page:
                text = (
                    f"The dashboard is below {self._prefix}, which is also the name of a page. If "
                    f"a proxy has taken {self._prefix} away from this request: let it stay there.\n"
                )
                await PlainTextResponse(text, 404)(scope, receive, send)
                return
            path = self._prefix + path
        await self._inner({**scope, "root_path": self._prefix, "path": path}, receive, send)
