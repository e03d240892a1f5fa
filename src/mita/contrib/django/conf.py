"""From `settings.MITA` to the Mita app of a project."""

import os
import re
import threading
from collections.abc import Mapping
from inspect import signature
from pathlib import Path
from typing import Any
from urllib.parse import parse_qsl, quote, urlencode, urlsplit

import django
from django.apps import apps
from django.conf import settings
from django.core.exceptions import ImproperlyConfigured
from django.utils.module_loading import import_string
from msgspec import Struct

from mita import Mita
from mita.contrib.outbox import Outbox
from mita.errors import MitaError, did_you_mean

from .runs import tend_connections
from .transactions import refuse_in_tests

TARGET = "mita.contrib.django:app"
# what `Mita(…)` takes, by the names of the setting
_APP_OPTIONS = {name.upper(): name for name in signature(Mita).parameters if name != "url"}
_ENGINES = {
    "postgresql": "postgresql",
    "postgresql_psycopg2": "postgresql",
    "postgis": "postgresql",
    "sqlite3": "sqlite",
    "spatialite": "sqlite",
}
_DRIVER = re.compile(r"\+\w+(?=://)")  # as SQLAlchemy writes it: postgresql+psycopg://
_OWN = ("APP", "URL", "DATABASE", "IMPORTS", "WAIT_FOR_COMMIT")
_making = threading.RLock()
_made: Mita | None = None
_derived: Mita | None = None  # the app, if its store was derived from DATABASES


class ProjectSettings(Struct, frozen=True):
    """What `settings.MITA` says. `app` names an app of the user's own, "module.attribute";
    `options` are those of `Mita(…)`. `database` is the alias of the database whose transactions
    jobs are part of. Unless `wait_for_commit`, a Django task is enqueued at once, even inside
    `atomic()`."""

    app: str | None
    url: str | None
    database: str
    imports: tuple[str, ...]
    wait_for_commit: bool
    options: dict[str, Any]


def project_settings() -> ProjectSettings:
    """Read `settings.MITA`. Raises `ImproperlyConfigured` for what is wrong in it."""
    given = getattr(settings, "MITA", {})
    if not isinstance(given, Mapping):
        raise ImproperlyConfigured(
            f"MITA is a {type(given).__name__}: give a dict, for example "
            'MITA = {"URL": "postgresql://localhost/shop"}'
        )
    known = [*_OWN, *_APP_OPTIONS]
    for name in given:
        if name not in known:
            meant = did_you_mean(str(name).upper(), known)
            raise ImproperlyConfigured(
                f"MITA[{name!r}] is not a setting{meant} (there are {', '.join(known)})"
            )
    imports = given.get("IMPORTS", ())
    if isinstance(imports, str):
        raise ImproperlyConfigured(f"MITA['IMPORTS'] = {imports!r}: give a list, [{imports!r}]")
    database = given.get("DATABASE", "default")
    if database not in settings.DATABASES and given.get("DATABASE") is not None:
        raise ImproperlyConfigured(f"MITA['DATABASE'] = {database!r} is not in DATABASES")
    return ProjectSettings(
        app=given.get("APP"),
        url=given.get("URL"),
        database=database,
        imports=tuple(imports),
        wait_for_commit=bool(given.get("WAIT_FOR_COMMIT", True)),
        options={
            _APP_OPTIONS[name]: value for name, value in given.items() if name in _APP_OPTIONS
        },
    )


def project_app() -> Mita:
    """The Mita app of the project; it is made at the first call. In a process that has not set
    Django up, such as `mita worker mita.contrib.django:app`, this does so."""
    global _made  # noqa: PLW0603
    if not apps.ready and not apps.loading:
        django.setup()
    with _making:
        if _made is None:
            app = _make(project_settings())
            tend_connections(app)
            _made = app
        return _made


def is_derived(app: Mita) -> bool:
    """Whether the store of this app was derived from `DATABASES`."""
    return app is _derived and app.url.scheme != "memory"


def _make(given: ProjectSettings) -> Mita:
    global _derived  # noqa: PLW0603
    if given.app is not None:
        return _imported(given)
    options = dict(given.options)
    url = given.url or _environment_url()
    derives = url is None and "store" not in options
    if "store" not in options:
        options["url"] = url or database_url(given.database)
    options["outbox"] = _outbox(options.pop("outbox", None), options.get("url", ""), given.database)
    try:
        app = Mita(**options)
    except (MitaError, TypeError) as error:
        raise ImproperlyConfigured(f"MITA: {error}") from error
    _derived = app if derives else None
    if derives:
        _refuse_in_tests(app)
    return app


def _refuse_in_tests(app: Mita) -> None:
    """Let the store that was derived from `DATABASES` not be opened in a test."""
    pool = app._pool  # noqa: SLF001
    opened = pool.store

    def store() -> Any:
        refuse_in_tests()
        return opened()

    pool.store = app._sender.open_store = store  # type: ignore[method-assign]  # noqa: SLF001


def _outbox(chosen: Any, url: str, alias: str) -> Any:
    """The outbox of the app. Unless the settings say otherwise, there is one if the jobs cannot be
    part of the project's transactions, and its database can have one."""
    engine = settings.DATABASES.get(alias, {}).get("ENGINE", "")
    kind = _ENGINES.get(engine.rpartition(".")[2])
    if chosen is None:
        joins = kind == "postgresql" and _is_same_database(url, database_url(alias))
        chosen = kind is not None and not joins and not url.startswith("memory:")
    return Outbox(django=alias) if chosen is True else chosen or None


def _is_same_database(one: str, other: str) -> bool:
    """Whether two URLs name the same PostgreSQL database, as far as one can see."""

    def place(url: str) -> tuple[str, ...]:
        parts = urlsplit(_DRIVER.sub("", url))
        query = dict(parse_qsl(parts.query))
        host = parts.hostname or query.get("host") or "localhost"
        return parts.scheme[:8], host, str(parts.port or query.get("port") or 5432), parts.path

    return place(one) == place(other)


def _imported(given: ProjectSettings) -> Mita:
    more = [name for name in ("URL", *_APP_OPTIONS) if name in settings.MITA]
    if more:
        raise ImproperlyConfigured(
            f"MITA['APP'] names an app, so MITA['{more[0]}'] has no effect: give it to that app"
        )
    try:
        app = import_string(str(given.app).replace(":", "."))
    except ImportError as error:
        raise ImproperlyConfigured(f"MITA['APP'] = {given.app!r}: {error}") from error
    if not isinstance(app, Mita):
        raise ImproperlyConfigured(
            f"MITA['APP'] = {given.app!r} is a {type(app).__name__}, not a Mita app: make one "
            "there, app = Mita(…)"
        )
    return app


def _environment_url() -> str | None:
    return os.environ.get("MITA_URL", "").strip() or None


def database_url(alias: str) -> str:
    """The URL of a store for a project that names none: PostgreSQL keeps the jobs in the project's
    own database, so that they are part of its transactions; beside an SQLite database they are in
    the file mita.db. Raises `ImproperlyConfigured` for other databases."""
    database = settings.DATABASES.get(alias, {})
    engine = str(database.get("ENGINE", ""))
    kind = engine.rpartition(".")[2]
    if _ENGINES.get(kind) == "postgresql":
        return _postgres_url(database)
    name = str(database.get("NAME", ""))
    if _ENGINES.get(kind) == "sqlite" and name and not _is_in_memory(name):
        return f"sqlite:///{quote(str(Path(name).absolute().with_name('mita.db')))}"
    raise ImproperlyConfigured(
        f"where are the jobs to be stored? DATABASES[{alias!r}] is {engine or 'not set'!r}, which "
        'is no store of Mita. Say so in the settings: MITA = {"URL": "redis://localhost"}, or '
        "set $MITA_URL"
    )


def _is_in_memory(name: str) -> bool:
    return name == ":memory:" or name.startswith("file:")


def _postgres_url(database: Mapping[str, Any]) -> str:
    user, password = str(database.get("USER") or ""), str(database.get("PASSWORD") or "")
    who = quote(user, safe="") + (f":{quote(password, safe='')}" if password else "")
    given = database.get("OPTIONS") or {}
    query = {name: str(value) for name, value in given.items() if isinstance(value, str | int)}
    query = {name: value for name, value in query.items() if name in _LIBPQ}
    host, port = str(database.get("HOST") or ""), str(database.get("PORT") or "")
    if host.startswith("/"):  # the folder of a socket
        query, host = {**query, "host": host}, ""
    if port and not host:
        query, port = {**query, "port": port}, ""
    where = f"{who}@" if who else ""
    where += (f"[{host}]" if ":" in host else host) + (f":{port}" if port else "")
    rest = f"?{urlencode(query)}" if query else ""
    return f"postgresql://{where}/{quote(str(database.get('NAME') or ''), safe='')}{rest}"


_LIBPQ = (
    "service",
    "passfile",
    "sslmode",
    "sslcert",
    "sslkey",
    "sslrootcert",
    "sslcrl",
    "sslpassword",
    "gssencmode",
    "target_session_attrs",
    "connect_timeout",
    "channel_binding",
    "requirepeer",
    "hostaddr",
)
