"""Bringing the schema up to date.

A step that ends in `pre` only adds, so that workers of the last release go on beside it; it is run
at first use. One that ends in `post` removes what nobody uses any more; it is run by `mita migrate`
alone, when all workers are new (and on a new schema at once)."""

import psycopg
from psycopg import errors

from mita.errors import MitaError, StoreMissing, UsageError
from mita.stores.shared.words import namespaces

from .connection import Connection, translated
from .connection import place as shown
from .line import Place
from .resources import lock_number
from .statements import migrations, read

_NAMESPACES = """
select n.nspname from pg_catalog.pg_class as c
join pg_catalog.pg_namespace as n on n.oid = c.relnamespace
where c.relname = '_step'
  and exists (
    select 1 from pg_catalog.pg_class as j where j.relnamespace = n.oid and j.relname = '_job')
order by n.nspname
"""
PRE, POST = ".pre", ".post"


async def migrate(connection: Connection, place: Place, *, removing: bool) -> list[str]:
    """Run the steps that are missing; gives their names. A second starter waits for the first and
    finds them done."""
    space = place.sql.namespace
    try:
        if not missing(await steps_done(connection, space), removing=removing):
            return []
        async with connection.transaction():
            await _take_your_time(connection)
            await connection.execute(
                "select pg_advisory_xact_lock(%s)", [lock_number(space, "migrate")]
            )
            return await _run(connection, place, removing=removing)
    except psycopg.Error as error:
        raise (
            _half_run(space, error) if _is_duplicate(error) else _refused(error, place)
        ) from error


async def look(connection: Connection, place: Place) -> None:
    """That the schema is there and up to date; nothing is changed."""
    space = place.sql.namespace
    try:
        done = await steps_done(connection, space)
        if not done:
            found = await connection.execute(_NAMESPACES)
            there = [name for (name,) in await found.fetchall()]
            raise StoreMissing(
                f"{shown(place.told)} has no Mita in namespace {space!r}{namespaces(there)}"
            )
    except psycopg.Error as error:
        raise _refused(error, place) from error
    if steps := missing(done, removing=False):
        raise UsageError(
            f"the schema {space!r} of {shown(place.told)} is of an older Mita (it lacks "
            f"{', '.join(steps)}): "
            "run `mita migrate`, or start a worker"
        )


async def steps_done(connection: Connection, space: str) -> set[str]:
    there = await connection.execute("select to_regclass(%s)::text", [f'"{space}"._step'])
    if (await there.fetchone() or (None,))[0] is None:
        return set()
    # the name was checked
    cursor = await connection.execute(f'select name from "{space}"._step'.encode())  # noqa: S608
    return {name for (name,) in await cursor.fetchall()}


def missing(done: set[str], *, removing: bool) -> list[str]:
    """The steps to run. One that is done and unknown to us only matters if it removed something."""
    for name in done.difference(migrations()):
        if name.endswith(POST):
            raise UsageError(
                f"this schema was brought up to date by a newer Mita (step {name}), and this one "
                "would miss what that "
                "removed: upgrade Mita here"
            )
    everything = removing or not done  # nobody uses a schema that is not there yet
    return [
        name for name in migrations() if name not in done and (everything or name.endswith(PRE))
    ]


async def _run(connection: Connection, place: Place, *, removing: bool) -> list[str]:
    space, sql = place.sql.namespace, place.sql
    await _make_schema(connection, space)
    names = missing(await steps_done(connection, space), removing=removing)
    for name in names:
        for statement in statements(sql.fill(read("migrations", f"{name}.sql"))):
            await connection.execute(statement.encode(), prepare=False)
        await connection.execute(f'insert into "{space}"._step (name) values (%s)'.encode(), [name])  # noqa: S608
    return names


async def _take_your_time(connection: Connection) -> None:
    """The limits that hold for our short transactions are not for this one."""
    for name in ("lock_timeout", "transaction_timeout"):
        await connection.execute(
            "select set_config(name, '0', true) from pg_settings where name = %s", [name]
        )


async def _make_schema(connection: Connection, space: str) -> None:
    """Asked for only if it is not there: who may use a schema need not have the right to make
    one."""
    there = await connection.execute("select 1 from pg_namespace where nspname = %s", [space])
    if await there.fetchone() is None:
        await connection.execute(f'create schema "{space}"'.encode())
    table = (
        f'create table if not exists "{space}"._step '
        "(name text primary key, at timestamptz not null default now())"
    )
    await connection.execute(table.encode())


def statements(text: str) -> list[str]:
    """A function's body has semicolons of its own, but none at the end of a line."""
    return [part.strip() for part in text.split(";\n") if part.strip()]


def _is_duplicate(error: psycopg.Error) -> bool:
    return isinstance(
        error, errors.DuplicateTable | errors.DuplicateFunction | errors.DuplicateObject
    )


def _half_run(space: str, error: psycopg.Error) -> UsageError:
    return UsageError(
        f"schema {space!r} holds tables of ours that its list of steps ({space}._step) does not "
        f"know of: {str(error).strip()}. Was it restored in part, or changed by hand? Restore it "
        "whole, or choose another ?namespace="
    )


def _refused(error: psycopg.Error, place: Place) -> MitaError:
    if isinstance(error, errors.InsufficientPrivilege):
        return UsageError(
            f"the schema {place.sql.namespace!r} is not up to date, and this user may not change "
            f"it: {str(error).strip()}. Run `mita migrate` as "
            "its owner, or: grant create on database … to …"
        )
    return translated(error, place.told)
