"""Checks every request before a page sees it: its host, who sent it, and where it came from.

Deny by default: a method that is not GET or HEAD must come from a page of the dashboard itself.
Every answer, errors included, has the headers that forbid foreign scripts and frames."""

import hmac
import inspect
import ipaddress
import time
from collections.abc import Awaitable, Callable, Sequence
from hashlib import sha256
from urllib.parse import quote, urlencode, urlsplit

from msgspec import Struct
from starlette.datastructures import MutableHeaders
from starlette.requests import Request
from starlette.responses import PlainTextResponse, RedirectResponse, Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from .place import path_of, root_of
from .roles import Role, Visitor, role_of

Authorize = Callable[[Request], object | Awaitable[object]]
"""Gets the request. Returns a role (or its name), or a pair of a role and the visitor's name. None:
the request is refused. A response: it is sent instead of the page."""

COOKIE = "mita_dashboard"
VISITOR = "mita.visitor"  # where the visitor is in the scope of a request
SAFE_METHODS = ("GET", "HEAD")
LOGIN_PATH = "/login"
PUBLIC_PATH = "/static/"  # the style and the script, which tell nothing
_COOKIE_S = 12 * 3600
_MOST_WRONG_TOKENS = 10  # per minute; then all tokens are refused until the minute is over
_LOOPBACK_NAMES = frozenset({"localhost", "127.0.0.1", "::1"})
# a proxy on this machine makes every client look local
_PROXY_HEADERS = ("forwarded", "x-forwarded-for", "x-forwarded-host", "x-real-ip", "via")

HEADERS = {
    "Content-Security-Policy": (
        "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; "
        "img-src 'self' data:; frame-ancestors 'none'; base-uri 'none'; form-action 'self'"
    ),
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "Referrer-Policy": "same-origin",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Permissions-Policy": "camera=(), geolocation=(), microphone=()",
}
_NO_AUTH = (
    "This dashboard has no token and no authorize hook, so it answers only this machine. Start it "
    "with `mita web --token …`, or make it with dashboard(app, authorize=…)."
)


class Access(Struct, frozen=True, kw_only=True):
    """Who may visit. Without a token and a hook, only this machine may. `hosts` are the names
    under which the dashboard is reached; empty: any, or this machine's if there is no check."""

    token: str | None = None
    authorize: Authorize | None = None
    read_only: bool = False
    hosts: tuple[str, ...] = ()

    @property
    def is_open(self) -> bool:
        """Whether nobody is asked who they are."""
        return self.token is None and self.authorize is None


class Guard:
    """An ASGI app in front of the dashboard."""

    def __init__(self, inner: ASGIApp, access: Access) -> None:
        self._inner, self._access = inner, access
        self._wrong_tokens: list[float] = []

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request."""
        if scope["type"] != "http":
            if scope["type"] == "lifespan":
                await self._inner(scope, receive, send)
            return

        async def send_safely(message: Message) -> None:
            if message["type"] == "http.response.start":
                headers = MutableHeaders(scope=message)
                for name, value in HEADERS.items():
                    headers[name] = value
                headers.setdefault("Cache-Control", "no-store")
            await send(message)

        request = Request(scope, receive)
        refusal = self._refusal(request) or await self._identify(request)
        await (refusal or self._inner)(scope, receive, send_safely)

    # ------------------------------------------------------------ where it comes from

    def _refusal(self, request: Request) -> Response | None:
        """Why the request is refused, whoever sent it; None: it is not."""
        host = request.headers.get("host", "")
        if not self._may_be_host(host):
            return _refused(
                421,
                f"The dashboard is not reached by the name {host[:100]!r}. If it should be, start "
                "it with that name: --host-name, or dashboard(app, hosts=[…]).",
            )
        if self._access.is_open and (reason := _why_not_local(request)):
            return _refused(403, reason)
        if request.method in SAFE_METHODS:
            return None
        if request.method != "POST":
            return _refused(405, "Only GET and POST are known here.")
        return None if self._is_own_form(request, host) else _refused(403, _FOREIGN)

    def _may_be_host(self, host: str) -> bool:
        name = _host_name(host)
        if name in {_host_name(one) for one in self._access.hosts}:
            return True
        if self._access.hosts or self._access.is_open:
            return name in _LOOPBACK_NAMES
        return bool(name)

    def _is_own_form(self, request: Request, host: str) -> bool:
        """Whether a form of the dashboard sent it, or a program with the token in a header."""
        site, origin = request.headers.get("sec-fetch-site"), request.headers.get("origin")
        if site is None and origin is None:
            return self._has_token_header(request)
        if site is not None and site != "same-origin":
            return False
        if origin is None:
            return True
        known = {host.lower(), *(one.lower() for one in self._access.hosts)}
        return urlsplit(origin).netloc.lower() in known

    # ------------------------------------------------------------ who sent it

    async def _identify(self, request: Request) -> Response | None:
        """Find out who sent it. Returns the refusal; None: the visitor is in the scope."""
        access = self._access
        if access.authorize is not None:
            answer = access.authorize(request)
            return self._admit(request, await answer if inspect.isawaitable(answer) else answer)
        if access.token is None:
            return self._admit(request, Role.ADMIN)
        if self._has_cookie(request):
            return self._admit(request, (Role.ADMIN, "token"))
        if self._is_locked():
            return _refused(429, "Too many wrong tokens. Try again in a minute.")
        if self._has_token_header(request):
            return self._admit(request, (Role.ADMIN, "token"))
        path = path_of(request.scope)
        if (given := request.query_params.get("token")) is not None:
            return self._exchange(request, given)
        if path == LOGIN_PATH or path.startswith(PUBLIC_PATH):
            return None
        if request.headers.get("authorization"):
            self._count_wrong_token()
            return _refused(401, "This token is wrong.")
        back = urlencode({"next": path}) if path != "/" else ""
        where = f"{root_of(request.scope)}{LOGIN_PATH}"
        return RedirectResponse(f"{where}?{back}" if back else where, 303)

    def _admit(self, request: Request, given: object) -> Response | None:
        if isinstance(given, Response):
            return given
        role, name = given if isinstance(given, tuple) else (given, "")
        if role is None:
            return _refused(403, "You may not see this dashboard.")
        known = role_of(role)
        if self._access.read_only:
            known = Role.READ
        request.scope[VISITOR] = Visitor(known, str(name) or "local")
        return None

    # ------------------------------------------------------------ the token

    def takes_token(self, given: str) -> bool:
        """Whether this is the token. Wrong ones are counted."""
        token = self._access.token
        if token is None or self._is_locked():
            return False
        if hmac.compare_digest(_digest(given), _digest(token)):
            return True
        self._count_wrong_token()
        return False

    def set_cookie(self, request: Request, response: Response) -> None:
        """Let the browser that gets this response visit without the token."""
        response.set_cookie(
            COOKIE,
            self._session(),
            max_age=_COOKIE_S,
            path=root_of(request.scope) or "/",
            secure=_is_encrypted(request),
            httponly=True,
            samesite="strict",
        )

    def _exchange(self, request: Request, given: str) -> Response:
        """Take the token out of the address, so that it stays in no history and no log."""
        if not self.takes_token(given):
            return _refused(401, "This token is wrong.")
        rest = [(name, value) for name, value in request.query_params.multi_items()]
        query = urlencode([(name, value) for name, value in rest if name != "token"])
        where = f"{root_of(request.scope)}{quote(path_of(request.scope))}"
        where = f"/{where.lstrip('/')}"  # two slashes would name another host
        response = RedirectResponse(f"{where}?{query}" if query else where, 303)
        self.set_cookie(request, response)
        return response

    def _has_token_header(self, request: Request) -> bool:
        kind, _, given = request.headers.get("authorization", "").partition(" ")
        token = self._access.token
        if token is None or kind.lower() != "bearer":
            return False
        return hmac.compare_digest(_digest(given.strip()), _digest(token))

    def _has_cookie(self, request: Request) -> bool:
        given = request.cookies.get(COOKIE, "")
        return hmac.compare_digest(given.encode(), self._session().encode())

    def _session(self) -> str:
        """What the cookie holds: made from the token, so that all processes agree on it."""
        token = (self._access.token or "").encode()
        return hmac.new(token, b"mita dashboard 1", sha256).hexdigest()

    def _count_wrong_token(self) -> None:
        self._wrong_tokens = [*self._wrong_tokens[-_MOST_WRONG_TOKENS:], time.monotonic()]

    def _is_locked(self) -> bool:
        since = time.monotonic() - 60
        return sum(at > since for at in self._wrong_tokens) >= _MOST_WRONG_TOKENS


_FOREIGN = (
    "This request did not come from a page of the dashboard, so nothing was changed. A program "
    "sends the header `Authorization: Bearer TOKEN`."
)


def _refused(status: int, text: str) -> Response:
    return PlainTextResponse(f"{text}\n", status)


def _digest(text: str) -> bytes:
    return sha256(text.encode()).digest()


def _host_name(host: str) -> str:
    """The name in a Host header, without the port."""
    try:
        return (urlsplit(f"//{host}").hostname or "").rstrip(".")
    except ValueError:
        return ""


def _is_encrypted(request: Request) -> bool:
    """Whether the browser used https. A proxy says so; whoever lies about it gets a cookie that is
    kept more strictly, and nothing else."""
    told = request.headers.get("x-forwarded-proto", "").partition(",")[0].strip().lower()
    return "https" in (request.url.scheme, told)


def _why_not_local(request: Request) -> str:
    """Why the request may come from another machine; empty if it comes from this one."""
    if any(name in request.headers for name in _PROXY_HEADERS):
        return f"{_NO_AUTH} This request came through a proxy."
    client = request.client
    if client is None:  # a Unix socket: the file system decides who may connect
        return ""
    try:
        is_local = ipaddress.ip_address(client.host).is_loopback
    except ValueError:
        is_local = client.host == "localhost"
    return "" if is_local else _NO_AUTH


def checked_hosts(hosts: Sequence[str]) -> tuple[str, ...]:
    """Return the hosts as a tuple; a single text is one host."""
    return (hosts,) if isinstance(hosts, str) else tuple(hosts)
