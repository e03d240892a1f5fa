"""Every kind of connection that a user may have: each opens a transaction, and commits it or rolls
back on an error."""

from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import (
    AbstractAsyncContextManager,
    AbstractContextManager,
    asynccontextmanager,
    contextmanager,
)
from typing import Any

import asyncpg  # type: ignore[import-untyped]
import django
import psycopg
from django.conf import settings as django_settings
from sqlalchemy import create_engine
from sqlalchemy.ext.asyncio import AsyncSession, create_async_engine
from sqlalchemy.orm import Session

from .server import PORT
from .shared import server


class Undo(Exception):
    """What a user raises to roll back."""


def sqlalchemy_url(driver: str) -> str:
    return f"postgresql+{driver}://postgres@/postgres?host={server('pg18').folder}&port={PORT}"


# ----------------------------------------- the async kinds: each commits, or rolls back on an error


@asynccontextmanager
async def psycopg_async(url: str) -> AsyncIterator[Any]:
    async with await psycopg.AsyncConnection.connect(url) as connection:
        yield connection


@asynccontextmanager
async def psycopg_async_autocommit(url: str) -> AsyncIterator[Any]:
    async with (
        await psycopg.AsyncConnection.connect(url, autocommit=True) as connection,
        connection.transaction(),
    ):
        yield connection


@asynccontextmanager
async def asyncpg_plain(_: str) -> AsyncIterator[Any]:
    connection = await asyncpg.connect(
        host=str(server("pg18").folder), port=PORT, user="postgres", database="postgres"
    )
    try:
        async with connection.transaction():
            yield connection
    finally:
        await connection.close()


def sqlalchemy_async(
    driver: str, *, session: bool
) -> Callable[[str], AbstractAsyncContextManager[Any]]:
    @asynccontextmanager
    async def kind(_: str) -> AsyncIterator[Any]:
        engine = create_async_engine(sqlalchemy_url(driver))
        try:
            if session:
                async with AsyncSession(engine) as opened, opened.begin():
                    yield opened
            else:
                async with engine.begin() as connection:
                    yield connection
        finally:
            await engine.dispose()

    return kind


ASYNC_KINDS: dict[str, Callable[[str], AbstractAsyncContextManager[Any]]] = {
    "psycopg": psycopg_async,
    "psycopg, autocommit": psycopg_async_autocommit,
    "asyncpg": asyncpg_plain,
    "sqlalchemy session over asyncpg": sqlalchemy_async("asyncpg", session=True),
    "sqlalchemy session over psycopg": sqlalchemy_async("psycopg", session=True),
    "sqlalchemy connection over asyncpg": sqlalchemy_async("asyncpg", session=False),
}


@contextmanager
def psycopg_sync(url: str) -> Iterator[Any]:
    with psycopg.connect(url) as connection:
        yield connection


@contextmanager
def sqlalchemy_session(_: str) -> Iterator[Any]:
    engine = create_engine(sqlalchemy_url("psycopg"))
    try:
        with Session(engine) as session, session.begin():
            yield session
    finally:
        engine.dispose()


@contextmanager
def sqlalchemy_connection(_: str) -> Iterator[Any]:
    engine = create_engine(sqlalchemy_url("psycopg"))
    try:
        with engine.begin() as connection:
            yield connection
    finally:
        engine.dispose()


def django_connection() -> Any:
    if not django_settings.configured:
        django_settings.configure(
            USE_TZ=True,
            DATABASES={
                "default": {
                    "ENGINE": "django.db.backends.postgresql",
                    "NAME": "postgres",
                    "USER": "postgres",
                    "HOST": str(server("pg18").folder),
                    "PORT": PORT,
                }
            },
        )
        django.setup()
    from django.db import connection

    return connection


@contextmanager
def django_atomic(_: str) -> Iterator[Any]:
    from django.db import transaction

    connection = django_connection()
    try:
        with transaction.atomic():
            yield connection
    finally:
        connection.close()


SYNC_KINDS: dict[str, Callable[[str], AbstractContextManager[Any]]] = {
    "psycopg": psycopg_sync,
    "sqlalchemy session": sqlalchemy_session,
    "sqlalchemy connection": sqlalchemy_connection,
    "django": django_atomic,
}
