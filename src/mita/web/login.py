"""The page that asks for the token."""

from starlette.responses import Response

from mita.errors import UsageError

from .visit import Visit


async def form(visit: Visit) -> Response:
    """Ask for the token."""
    return visit.render("login.html", next=visit.query("next") or "/", wrong=False)


async def enter(visit: Visit) -> Response:
    """Take the token: the browser gets a cookie for it."""
    sent, guard = await visit.form(), visit.site.guard
    if guard is None:
        raise UsageError("this dashboard has no token")
    next = sent.get("next") or "/"
    if not guard.takes_token(sent.get("token")):
        return visit.render("login.html", 401, next=next, wrong=True)
    # a path of ours only: another address could be anywhere
    is_path = next.startswith("/") and not next.startswith(("//", "/\\"))
    response = visit.go(visit.url(next if is_path else "/"))
    guard.set_cookie(visit.request, response)
    return response
