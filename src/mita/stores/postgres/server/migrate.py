"""Bringing the schema up to date.

A migration that ends in `.pre` only adds, so workers of the last release can go on beside it. It
runs at first use. One that ends in `.post` removes what no release uses any more. It runs with
`mita migrate` only, when all workers are new (and at once on a new schema)."""

from typing import Any

import psycopg
from psycopg import errors

from mita.errors import MitaError, StoreMissing, UsageError
from mita.stores.shared.words import namespaces

from .connect import PsycopgConnection
from .errors import display_address, translated
from .locks import lock_number
from .statements import PostgresStatements, migrations, read

_NAMESPACES = """
select n.nspname from pg_catalog.pg_class as c
join pg_catalog.pg_namespace as n on n.oid = c.relnamespace
where c.relname = '_step'
  and exists (
    select 1 from pg_catalog.pg_class as j where j.relnamespace = n.oid and j.relname = '_job')
order by n.nspname
"""
PRE, POST = ".pre", ".post"


class Schema:
    """The schema of one namespace, seen through one connection."""

    def __init__(
        self,
        connection: PsycopgConnection,
        params: dict[str, Any],
        statements: PostgresStatements,
    ) -> None:
        self._connection, self._params, self._statements = connection, params, statements
        self._space = statements.namespace

    async def migrate(self, *, removing: bool) -> list[str]:
        """Run the migrations that are missing and return their names. A second process waits for
        the first and finds them done. `removing` includes the steps that remove."""
        try:
            if not missing(await self._done(), removing=removing):
                return []
            async with self._connection.transaction():
                await self._lift_time_limits()
                await self._connection.execute(
                    "select pg_advisory_xact_lock(%s)", [lock_number(self._space, "migrate")]
                )
                return await self._run(removing=removing)
        except psycopg.Error as error:
            raise (
                self._half_run(error) if _is_duplicate(error) else self._refused(error)
            ) from error

    async def check(self) -> None:
        """Raise unless the schema exists and is up to date. Changes nothing."""
        address = display_address(self._params)
        try:
            done = await self._done()
            if not done:
                found = await self._connection.execute(_NAMESPACES)
                present = [name for (name,) in await found.fetchall()]
                raise StoreMissing(
                    f"{address} has no Mita in namespace {self._space!r}{namespaces(present)}"
                )
        except psycopg.Error as error:
            raise self._refused(error) from error
        if names := missing(done, removing=False):
            raise UsageError(
                f"the schema {self._space!r} of {address} is of an older Mita (it lacks "
                f"{', '.join(names)}): run `mita migrate`, or start a worker"
            )

    async def _done(self) -> set[str]:
        table = f'"{self._space}"._step'  # the namespace was checked, so it can be part of the text
        found = await self._connection.execute("select to_regclass(%s)::text", [table])
        if (await found.fetchone() or (None,))[0] is None:
            return set()
        cursor = await self._connection.execute(f"select name from {table}".encode())  # noqa: S608
        return {name for (name,) in await cursor.fetchall()}

    async def _run(self, *, removing: bool) -> list[str]:
        await self._make_schema()
        names = missing(await self._done(), removing=removing)
        insert = f'insert into "{self._space}"._step (name) values (%s)'.encode()  # noqa: S608
        for name in names:
            for part in split(self._statements.fill(read("migrations", f"{name}.sql"))):
                await self._connection.execute(part.encode(), prepare=False)
            await self._connection.execute(insert, [name])
        return names

    async def _lift_time_limits(self) -> None:
        """The time limits of our short transactions do not apply to a migration."""
        for name in ("lock_timeout", "transaction_timeout"):
            await self._connection.execute(
                "select set_config(name, '0', true) from pg_settings where name = %s", [name]
            )

    async def _make_schema(self) -> None:
        """Create the schema only if it is missing: a user who may use it need not have the right to
        create one."""
        found = await self._connection.execute(
            "select 1 from pg_namespace where nspname = %s", [self._space]
        )
        if await found.fetchone() is None:
            await self._connection.execute(f'create schema "{self._space}"'.encode())
        table = (
            f'create table if not exists "{self._space}"._step '
            "(name text primary key, at timestamptz not null default now())"
        )
        await self._connection.execute(table.encode())

    def _half_run(self, error: psycopg.Error) -> UsageError:
        return UsageError(
            f"schema {self._space!r} has tables of Mita that its list of migrations "
            f"({self._space}._step) does not name: {str(error).strip()}. Was it restored in part, "
            "or changed by hand? Restore all of it, or choose another ?namespace="
        )

    def _refused(self, error: psycopg.Error) -> MitaError:
        if isinstance(error, errors.InsufficientPrivilege):
            return UsageError(
                f"the schema {self._space!r} is not up to date, and this user may not change it: "
                f"{str(error).strip()}. Run `mita migrate` as its owner, or: grant create on "
                "database … to …"
            )
        return translated(error, self._params)


def missing(done: set[str], *, removing: bool) -> list[str]:
    """The migrations to run. Raises if a newer Mita has removed something that this one uses."""
    for name in done.difference(migrations()):
        if name.endswith(POST):
            raise UsageError(
                f"this schema was migrated by a newer Mita (migration {name}), which removed what "
                "this one uses: upgrade Mita here"
            )
    everything = removing or not done  # a new schema has no users
    return [
        name for name in migrations() if name not in done and (everything or name.endswith(PRE))
    ]


def split(text: str) -> list[str]:
    """The statements of a migration. A function's body has semicolons too, but none at the end of a
    line."""
    return [part.strip() for part in text.split(";\n") if part.strip()]


def _is_duplicate(error: psycopg.Error) -> bool:
    return isinstance(
        error, errors.DuplicateTable | errors.DuplicateFunction | errors.DuplicateObject
    )
