"""Checks that a file is one of Mita's, before it is opened. The file is only read: the file of
another program must stay as it is."""

import sqlite3
from contextlib import closing
from pathlib import Path

from mita.errors import StoreMissing, UsageError
from mita.stores.shared.words import namespaces
from mita.stores.sqlite.connection import check_folder, translated
from mita.stores.sqlite.maintenance import too_new

from .statements import migrations


def check_existing(path: Path, namespace: str) -> None:
    """Raises `StoreMissing` if the file or its namespace does not exist, and `UsageError` if its
    schema is not up to date."""
    check_folder(path)
    if not path.exists():
        raise StoreMissing(f"there is no file {path}, so no job was ever stored there")
    try:
        version, there = _read(path, namespace)
    except sqlite3.Error as error:
        raise translated(error, path) from error
    newest = migrations()[-1][0]
    if version is None:
        raise StoreMissing(
            f"the file {path} has no Mita in namespace {namespace!r}{namespaces(there)}"
        )
    if version > newest:
        raise too_new(version, newest)
    if version < newest:
        raise UsageError(
            f"the file {path} has schema {version}, and this Mita reads {newest}: run `mita "
            "migrate`, or start a worker"
        )


def _read(path: Path, namespace: str) -> tuple[int | None, list[str]]:
    """The version of the schema (None: there is no such namespace), and all namespaces."""
    with closing(sqlite3.connect(f"{path.as_uri()}?mode=ro", uri=True)) as database:
        tables = database.execute(
            "select name from sqlite_master where type = 'table' and name like '%meta'"
        ).fetchall()
        there = sorted(
            name[1 : -len("_meta")]
            for (name,) in tables
            if name.startswith("_") and name.endswith("_meta")
        )
        if namespace not in there:
            return None, there
        found = database.execute(
            f"select value from \"_{namespace}_meta\" where name = 'schema'"  # noqa: S608
        ).fetchone()
        return (None if found is None else int(found[0])), there
