"""Every kind of connection to an SQLite file that a user may have: each opens a transaction, and
commits it or rolls back on an error."""

import sqlite3
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import (
    AbstractAsyncContextManager,
    AbstractContextManager,
    asynccontextmanager,
    contextmanager,
)
from pathlib import Path
from typing import Any

import aiosqlite
from sqlalchemy import create_engine
from sqlalchemy.ext.asyncio import AsyncSession, create_async_engine
from sqlalchemy.orm import Session


@contextmanager
def plain(file: Path) -> Iterator[Any]:
    connection = sqlite3.connect(file)
    try:
        with connection:
            yield connection
    finally:
        connection.close()


@contextmanager
def begun_by_hand(file: Path) -> Iterator[Any]:
    connection = sqlite3.connect(file, isolation_level=None)
    try:
        connection.execute("begin")
        with connection:
            yield connection
    finally:
        connection.close()


@contextmanager
def session(file: Path) -> Iterator[Any]:
    engine = create_engine(f"sqlite:///{file}")
    try:
        with Session(engine) as opened, opened.begin():
            yield opened
    finally:
        engine.dispose()


@contextmanager
def sqlalchemy_connection(file: Path) -> Iterator[Any]:
    engine = create_engine(f"sqlite:///{file}")
    try:
        with engine.begin() as connection:
            yield connection
    finally:
        engine.dispose()


SYNC_KINDS: dict[str, Callable[[Path], AbstractContextManager[Any]]] = {
    "sqlite3": plain,
    "sqlite3, begun by hand": begun_by_hand,
    "sqlalchemy session": session,
    "sqlalchemy connection": sqlalchemy_connection,
}


@asynccontextmanager
async def aiosqlite_plain(file: Path) -> AsyncIterator[Any]:
    async with aiosqlite.connect(file) as connection:
        yield connection
        await connection.commit()


@asynccontextmanager
async def async_session(file: Path) -> AsyncIterator[Any]:
    engine = create_async_engine(f"sqlite+aiosqlite:///{file}")
    try:
        async with AsyncSession(engine) as opened, opened.begin():
            yield opened
    finally:
        await engine.dispose()


@asynccontextmanager
async def async_connection(file: Path) -> AsyncIterator[Any]:
    engine = create_async_engine(f"sqlite+aiosqlite:///{file}")
    try:
        async with engine.begin() as connection:
            yield connection
    finally:
        await engine.dispose()


ASYNC_KINDS: dict[str, Callable[[Path], AbstractAsyncContextManager[Any]]] = {
    "aiosqlite": aiosqlite_plain,
    "sqlalchemy session": async_session,
    "sqlalchemy connection": async_connection,
}
