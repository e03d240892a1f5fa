"""Requests to a dashboard without a server and without a browser."""

import sqlite3
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import httpx
from starlette.requests import Request

from mita import Mita
from mita.web import dashboard

HOST = "127.0.0.1:8787"
OWN_FORM = {"origin": f"http://{HOST}", "sec-fetch-site": "same-origin"}
TOKEN = "correct-horse-battery-staple"
# who listens to events, and the file's clock: pages that are live write there
NOT_DATA = ("_mita_message", "_mita_meta", "_mita_subscription")


def by_header(request: Request) -> object:
    """An `authorize` hook that believes the header x-role."""
    return request.headers.get("x-role") or None


@asynccontextmanager
async def asking(
    app: Mita, client: str = "127.0.0.1", scheme: str = "http", **options: Any
) -> AsyncIterator[httpx.AsyncClient]:
    """A client of the dashboard, which asks from this address."""
    transport = httpx.ASGITransport(dashboard(app, **options), client=(client, 50_000))
    async with httpx.AsyncClient(transport=transport, base_url=f"{scheme}://{HOST}") as found:
        yield found


def dump(path: Path) -> dict[str, list[tuple[Any, ...]]]:
    """All rows of all tables of the file, except `NOT_DATA`."""
    with sqlite3.connect(path) as database:
        database.text_factory = bytes
        names = [
            row[0].decode()
            for row in database.execute("SELECT name FROM sqlite_master WHERE type = 'table'")
        ]
        return {
            name: sorted(database.execute(f'SELECT * FROM "{name}"'), key=repr)
            for name in names
            if name not in NOT_DATA
        }
