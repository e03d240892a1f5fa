"""Where an outbox is: read from a URL, an SQLAlchemy engine, or the settings of Django."""

import re
from pathlib import Path
from typing import Any, TypeAlias

from msgspec import Struct

from mita.errors import UsageError
from mita.ports.outbox_table import POSTGRES, SQLITE, known_dialect

_DRIVER = re.compile(r"^(postgres(?:ql)?|sqlite)\+\w+(://)")
_EXAMPLES = "postgresql://localhost/shop or sqlite:///shop.db"
# of Django's OPTIONS, what is not for the server
_DJANGOS_OWN = ("pool", "isolation_level", "server_side_binding", "assume_role")


class PostgresLocation(Struct, frozen=True):
    """A PostgreSQL database, by its libpq parameters."""

    params: dict[str, Any]

    @property
    def dialect(self) -> str:
        """The kind of database."""
        return POSTGRES

    @property
    def shown(self) -> str:
        """For people, without the password."""
        from mita.stores.postgres.server.errors import display_address

        return f"postgresql://{display_address(self.params)}"


class SqliteLocation(Struct, frozen=True):
    """An SQLite database, by its file."""

    path: Path

    @property
    def dialect(self) -> str:
        """The kind of database."""
        return SQLITE

    @property
    def shown(self) -> str:
        """For people."""
        return f"sqlite:///{self.path}"


Location: TypeAlias = PostgresLocation | SqliteLocation


def of_url(url: str) -> Location:
    """Return the location that a URL names. Raises `UsageError` for one that cannot have an
    outbox."""
    given = _DRIVER.sub(r"\1\2", url.strip())
    scheme, mark, rest = given.partition("://")
    if not mark:
        raise UsageError(f"Outbox({url!r}): give a URL, for example {_EXAMPLES}")
    if known_dialect(scheme) == SQLITE:
        return _sqlite(rest.partition("?")[0].removeprefix("/"))
    try:
        from mita.stores.postgres.server.connect import parse
    except ModuleNotFoundError as error:
        raise UsageError(
            f"an outbox in PostgreSQL needs a package that is not installed ({error}): "
            "pip install 'mita[postgres]'"
        ) from error
    return PostgresLocation(parse(given)[0])


def of_engine(engine: Any) -> Location:
    """Return the location of an SQLAlchemy engine, sync or async."""
    url = engine.url
    if known_dialect(engine.dialect.name) == SQLITE:
        return _sqlite(url.database or "")
    return of_url(url.set(drivername=POSTGRES).render_as_string(hide_password=False))


def of_django(alias: str) -> Location:
    """Return the location of a database in Django's settings."""
    from django.db import connections

    wrapper = connections[alias]
    settings = wrapper.settings_dict
    if known_dialect(wrapper.vendor) == SQLITE:
        return _sqlite(str(settings["NAME"]))
    names = {"NAME": "dbname", "USER": "user", "PASSWORD": "password", "HOST": "host"}
    names["PORT"] = "port"
    params = {ours: str(settings[name]) for name, ours in names.items() if settings.get(name)}
    options = settings.get("OPTIONS", {})
    params |= {
        name: str(value)
        for name, value in options.items()
        if name not in _DJANGOS_OWN and isinstance(value, str | int)
    }
    base = of_url("postgresql://")
    assert isinstance(base, PostgresLocation)  # noqa: S101
    return PostgresLocation({**base.params, **params})


def _sqlite(path: str) -> SqliteLocation:
    if not path or ":memory:" in path:
        raise UsageError(
            "an outbox cannot be in an SQLite database in memory, which only one connection sees: "
            "use a file, for example sqlite:///shop.db"
        )
    return SqliteLocation(Path(path).absolute())
