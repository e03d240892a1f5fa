"""`mita web`: serve the dashboard."""

import argparse
import asyncio
import ipaddress
import os
import secrets

from mita import Mita
from mita.errors import StoreMissing

from .argtypes import port
from .context import CHOOSE, open_app, store_text
from .defaults import chosen_app
from .logs import LEVELS, write_logs
from .parser import Commands
from .screen import Report, Screen
from .web_server import import_uvicorn, open_port, serve_until_stopped

DEFAULT_PORT = 8787
TOKEN_BYTES = 24

_ABOUT = """By itself it listens to this
machine only. Any other address needs a token: give one with --token or
$MITA_WEB_TOKEN, or let the command make one and print it. Name the app to see
arguments and results as its tasks mean them."""


def add(commands: Commands) -> None:
    """Add the command to the parser."""
    parser = commands.add("web", serve, about=_ABOUT)
    parser.add_argument(
        "target",
        metavar="MODULE:APP",
        nargs="?",
        help="the app, for example jobs:app (default: --app)",
    )
    parser.add_argument("--host", default="127.0.0.1", help="the address to listen at (127.0.0.1)")
    parser.add_argument("--port", type=port, default=DEFAULT_PORT, help=f"({DEFAULT_PORT})")
    parser.add_argument("--token", help="what visitors must give; at least 16 characters")
    parser.add_argument("--read-only", action="store_true", help="nobody can change anything")
    parser.add_argument(
        "--host-name",
        action="append",
        default=[],
        metavar="NAME",
        help="a name by which visitors reach it, for example behind a proxy",
    )
    parser.add_argument(
        "--prefix", default="", metavar="/PATH", help="the path at which a proxy shows it"
    )
    parser.add_argument("--title", default="", help="shown on each page, for example production")
    parser.add_argument("--log-level", choices=LEVELS, default="warning")


def serve(options: argparse.Namespace, screen: Screen) -> int:
    """Run `mita web` until it is stopped. Returns the exit code."""
    write_logs(options.log_level, as_json=screen.json)
    asyncio.run(_serve(options, screen))
    return screen.show(Report({"stopped": True}))


async def _serve(options: argparse.Namespace, screen: Screen) -> None:
    from mita.web import dashboard

    import_uvicorn()
    token = options.token or os.environ.get("MITA_WEB_TOKEN") or None
    is_new = token is None and not is_loopback(options.host)
    token = secrets.token_urlsafe(TOKEN_BYTES) if is_new else token
    target = options.target or options.app or chosen_app()
    async with open_app(options, target, create=False) as app:
        await _check_store(app)
        site = dashboard(
            app,
            token=token,
            read_only=options.read_only,
            hosts=options.host_name,
            prefix=options.prefix,
            title=options.title,
        )
        listener = open_port(options.host, options.port)
        shown = f"[{options.host}]" if ":" in options.host else options.host
        address = f"http://{shown}:{listener.getsockname()[1]}{options.prefix.rstrip('/')}/"
        screen.print_stderr(f"the dashboard of {store_text(app)} is at {address}")
        if is_new:
            screen.print_stderr(f"the token, printed only now: {token}")
        await serve_until_stopped(site, listener, options.log_level)


async def _check_store(app: Mita) -> None:
    """Raise `StoreMissing`, with advice, if there is no store: it is told before the start."""
    try:
        await app.queues()
    except StoreMissing as error:
        raise StoreMissing(f"{error}: {CHOOSE}") from error


def is_loopback(host: str) -> bool:
    """Whether only this machine can reach the address."""
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"
