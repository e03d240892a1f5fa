"""The driver's errors as Mita's errors: which are the user's, which may pass, which were undone."""

from typing import Any

import psycopg
from psycopg import errors

from mita.errors import MitaError, Rejected, StoreError, UsageError
from mita.stores.shared.words import UNREACHED

_LOGIN_REFUSED = (
    "does not exist",
    "authentication failed",
    "no pg_hba.conf entry",
    "no password supplied",
    "translate host name",
)
_SCHEMA_MISSING = (
    errors.UndefinedTable,
    errors.UndefinedColumn,
    errors.UndefinedFunction,
    errors.InvalidSchemaName,
)
_ROLLED_BACK = (
    errors.SerializationFailure,
    errors.DeadlockDetected,
    errors.LockNotAvailable,
    errors.IdleInTransactionSessionTimeout,
)
_TRANSIENT = (
    *_ROLLED_BACK,
    errors.QueryCanceled,
    # the primary has become a standby: the next connection may reach the new primary
    errors.ReadOnlySqlTransaction,
    errors.InvalidSqlStatementName,  # a pooler has lost our prepared statements
    errors.DuplicatePreparedStatement,
)


class NoAnswerInTime(psycopg.OperationalError):
    """The server keeps the connection open and does not answer. The statement may have been
    executed, or may still be."""


def no_answer(seconds: float) -> NoAnswerInTime:
    """The error for a server that did not answer for this many seconds."""
    return NoAnswerInTime(
        f"no answer for {seconds:g} s: is the server stopped, is its disk full, or is it "
        "overloaded?"
    )


def display_address(params: dict[str, Any]) -> str:
    """Host, port and database of these libpq parameters, for messages. Never the password."""
    host = params.get("host") or params.get("hostaddr") or "the local socket"
    return f"{host}:{params.get('port') or 5432}/{params.get('dbname') or params.get('user') or ''}"


def cannot_connect(error: psycopg.Error, params: dict[str, Any]) -> MitaError:
    """Mita's error for a connection that could not be made."""
    text, address = str(error).strip(), display_address(params)
    if any(sign in text for sign in _LOGIN_REFUSED):
        return UsageError(
            f"PostgreSQL at {address} refused the login: {text}. Check the user, the password and "
            "the database in the URL, or the server's permissions"
        )
    if "read-only" in text or "hot standby" in text:
        return StoreError(
            f"no server at {address} accepts writes now: {text}. Name the primary", transient=True
        )
    reason = text.partition("\n")[0]  # libpq's later lines are guesses
    return StoreError(
        f"cannot reach PostgreSQL at {address} ({reason}). {UNREACHED}", transient=True
    )


def translated(error: psycopg.Error, params: dict[str, Any]) -> MitaError:
    """Mita's error for an error of the driver."""
    text, address = str(error).strip(), display_address(params)
    if isinstance(error, errors.InsufficientPrivilege):
        return UsageError(
            f"the user of {address} lacks a permission: {text}. As the owner, run `mita migrate`, "
            "then grant usage on the schema and all on its tables and sequences to this user"
        )
    if isinstance(error, _SCHEMA_MISSING):
        return StoreError(
            f"{address}: {text}. The schema is not up to date: run `mita migrate`", transient=False
        )
    if is_rejected(error):
        return Rejected(f"{address}: {text} ({type(error).__name__})")
    return StoreError(f"{address}: {text} ({type(error).__name__})", transient=is_transient(error))


def is_rejected(error: psycopg.Error) -> bool:
    """Whether the server refused the data itself: a value out of range or too long, a constraint or
    a trigger of the table, a program limit. A value that is too long for the server's memory has no
    code of its own."""
    state = error.sqlstate or ""
    if not state:
        return isinstance(error, psycopg.DataError)
    return state.startswith(("22", "23", "54", "P0")) or (
        state == "XX000" and "memory alloc" in str(error)
    )


def is_transient(error: psycopg.Error) -> bool:
    """Whether a retry may help."""
    state = error.sqlstate or ""
    if not state:
        return isinstance(error, psycopg.OperationalError)
    return state.startswith(("08", "53", "57P")) or isinstance(error, _TRANSIENT)


def was_rolled_back(error: psycopg.Error) -> bool:
    """Whether it is certain that nothing was written."""
    return isinstance(
        error, (*_ROLLED_BACK, errors.ReadOnlySqlTransaction, errors.InvalidSqlStatementName)
    )
