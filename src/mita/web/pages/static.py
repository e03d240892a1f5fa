"""The style, the script and the icon."""

from functools import cache
from importlib import resources

from starlette.responses import Response

from mita.web.visit import NotHere, Visit

_TYPES = {
    "mita.css": "text/css; charset=utf-8",
    "pictures.css": "text/css; charset=utf-8",
    "mita.js": "text/javascript; charset=utf-8",
    "icon.svg": "image/svg+xml",
}


async def asset(visit: Visit) -> Response:
    """One file. Its address has the version of Mita, so browsers may keep it for a day."""
    name = visit.part("name")
    if name not in _TYPES:
        raise NotHere("There is no such file.")
    headers = {"Cache-Control": "max-age=86400"}
    return Response(_text(name), media_type=_TYPES[name], headers=headers)


@cache
def _text(name: str) -> bytes:
    return (resources.files("mita.web") / "static" / name).read_bytes()
