"""Whether jobs can be written on a user's connection. A statement that fails would abort the user's
transaction, so this is checked first, once for each connection."""

from contextlib import suppress
from typing import Any, NamedTuple

from mita.errors import UsageError
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


class CheckAnswer(NamedTuple):
    """The one row that answers `check_query`."""

    database: str
    user: str
    has_tables: bool
    may_write: bool
    is_read_only: bool
    identity: str


def check(state: StoreState, driver: Any, answer: CheckAnswer, *, is_other: bool) -> None:
    """Remember the connection if the answer to `check_query` is good. Otherwise raise a
    `UsageError` that says what to do; the transaction is as it was. `is_other`: this is not the
    database that the store is connected to."""
    space = state.statements.namespace
    if not answer.has_tables or is_other:
        lacks = (
            "which has jobs of Mita, too, but not those of this app"
            if answer.has_tables
            else f"which has no jobs of Mita in namespace {space!r}"
        )
        raise UsageError(
            f"this connection is to the database {answer.database!r}, {lacks}; the jobs of this "
            f"app are in {display_address(state.params)}, namespace {space!r}. Use a connection to "
            "that database (of a session with several: session.connection(bind_arguments=…)), or "
            "give Mita the URL of this one and run `mita migrate`. Your transaction is untouched"
        )
    if not answer.may_write:
        user = answer.user
        raise UsageError(
            f"the user {user!r} of this connection may not write jobs in namespace {space!r}: as "
            f'its owner, grant usage on schema "{space}" and all on all tables and sequences in it '
            f'to "{user}". Your transaction is untouched'
        )
    if answer.is_read_only:
        raise UsageError(
            "this transaction is read-only (a standby server, or SET TRANSACTION READ ONLY), so "
            "no job can be written in it: use a connection that writes. Your transaction is "
            "untouched"
        )
    with suppress(TypeError):
        state.checked.add(driver)
