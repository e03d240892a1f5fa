"""Whether jobs can be written on a user's connection. A statement that fails would abort the user's
transaction, so this is checked first, once for each connection."""

from contextlib import suppress
from typing import Any

from mita.errors import UsageError
from mita.stores.postgres.codec import Rows
from mita.stores.postgres.context import StoreState, query
from mita.stores.postgres.server.errors import display_address


def is_checked(state: StoreState, driver: Any) -> bool:
    """Whether this connection was checked before and can be used."""
    with suppress(TypeError):  # one that is not hashable is checked each time
        return driver in state.checked
    return False


def check_query(state: StoreState) -> tuple[str, dict[str, Any]]:
    """The statement to run on the user's connection, and its values."""
    return state.bound(query("enqueue_in_check", namespace=state.statements.namespace))


def check(state: StoreState, driver: Any, answer: Rows) -> None:
    """Remember the connection if the answer to `check_query` is good. Otherwise raise a
    `UsageError` that says what to do; the transaction is as it was."""
    [(database, user, has_tables, may_write)] = answer
    space = state.statements.namespace
    if not has_tables:
        raise UsageError(
            f"this connection is to the database {database!r}, which has no jobs of Mita in "
            f"namespace {space!r}; the jobs of this app are in {display_address(state.params)}. "
            "Use a connection to that database, or give Mita the URL of this one and run "
            "`mita migrate`. Your transaction is untouched"
        )
    if not may_write:
        raise UsageError(
            f"the user {user!r} of this connection may not write jobs in namespace {space!r}: as "
            f'its owner, grant usage on schema "{space}" and all on all tables and sequences in it '
            f'to "{user}". Your transaction is untouched'
        )
    with suppress(TypeError):
        state.checked.add(driver)
