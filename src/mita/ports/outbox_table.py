"""The table of the outbox, for each kind of database. A migration can import `create_statements`:

    from mita.contrib.outbox import create_statements

    for statement in create_statements("postgresql"):
        op.execute(statement)

Every statement can be run again: it does nothing then."""

from mita.errors import UsageError

TABLE = "mita_outbox"
TABLE_VERSION = 1
POSTGRES, SQLITE = "postgresql", "sqlite"
DIALECTS = {"postgres": POSTGRES, "postgresql": POSTGRES, "sqlite": SQLITE}

# the clock of the database, in milliseconds
NOW_MS_SQL = {
    POSTGRES: "(extract(epoch from clock_timestamp()) * 1000)::bigint",
    SQLITE: "cast((julianday('now') - 2440587.5) * 86400000 as integer)",
}
_SEQ = {
    POSTGRES: "bigint generated always as identity primary key",
    SQLITE: "integer primary key autoincrement",
}


def create_statements(dialect: str) -> tuple[str, ...]:
    """Return the statements that create the table in a `postgresql` or `sqlite` database. Raises
    `UsageError` for another kind."""
    kind = known_dialect(dialect)
    return (
        f"""create table if not exists {TABLE} (
  seq {_SEQ[kind]},
  id text not null,
  outbox text not null,
  task text not null,
  queue text not null,
  job text not null,
  written bigint not null default ({NOW_MS_SQL[kind]}),
  state text not null default 'new',
  error text,
  unique (outbox, id)
)""",
        f"create index if not exists {TABLE}_next on {TABLE} (outbox, seq) where state <> 'parked'",
        f"create table if not exists {TABLE}_version (version integer not null)",
        (
            f"insert into {TABLE}_version (version) select {TABLE_VERSION} "
            f"where not exists (select 1 from {TABLE}_version)"
        ),
    )


def drop_statements() -> tuple[str, ...]:
    """Return the statements that drop the table, for the way back of a migration."""
    return (f"drop table if exists {TABLE}", f"drop table if exists {TABLE}_version")


def create_sql(dialect: str) -> str:
    """Return the same statements as one text, for a migration in SQL."""
    return "".join(f"{statement};\n" for statement in create_statements(dialect))


def known_dialect(dialect: str) -> str:
    """Return the name that SQLAlchemy and Django have for this kind of database. Raises
    `UsageError` for one that cannot have an outbox."""
    try:
        return DIALECTS[dialect]
    except KeyError:
        raise UsageError(
            f"an outbox cannot be in {dialect}: it can be in PostgreSQL or SQLite"
        ) from None
