"""Whether jobs can be written on a connection of the user's. A statement that fails would abort the
user's transaction, so this is asked first, once for each connection."""

from contextlib import suppress
from typing import Any

from mita.errors import UsageError

from .connection import place as shown
from .line import Place
from .steps import Rows, ask


def is_known(place: Place, driver: Any) -> bool:
    """Whether this connection of a driver was examined before, and found fit."""
    with suppress(TypeError):  # one that cannot be remembered is examined each time
        return driver in place.fit
    return False


def question(place: Place) -> tuple[str, dict[str, Any]]:
    return place.bound(ask("fitness", namespace=place.sql.namespace))


def examine(place: Place, driver: Any, answer: Rows) -> None:
    """Raises a `UsageError` that says what to do; the transaction is as it was."""
    [(database, user, there, may_write)] = answer
    space = place.sql.namespace
    if not there:
        raise UsageError(
            f"this connection is to the database {database!r}, which has no jobs of Mita in "
            f"namespace {space!r}; the jobs "
            f"of this app are in {shown(place.told)}. Use a connection to that database, or give "
            "Mita the URL of this one "
            "and run `mita migrate`. Your transaction is untouched"
        )
    if not may_write:
        raise UsageError(
            f"the user {user!r} of this connection may not write jobs in namespace {space!r}: as "
            "its owner, grant usage on "
            f'schema "{space}" and all on all tables and sequences in it to "{user}". Your '
            "transaction is untouched"
        )
    with suppress(TypeError):
        place.fit.add(driver)
