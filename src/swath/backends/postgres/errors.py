"""Translate the errors of PostgreSQL and psycopg to swath's own."""

import re
from collections.abc import Iterator
from contextlib import contextmanager

import psycopg
from psycopg import errors as pg

from swath.backends.postgres.format import build_format_error
from swath.core.clock import SECOND
from swath.core.errors import (
    InvalidOutcome,
    LeaseLost,
    NotAFrontier,
    OutputConflict,
    StoreFull,
    StoreUnavailable,
    SwathError,
    UsageError,
    WrongTransaction,
)
from swath.core.store import NOT_DEAD

# SQLSTATEs that the stored functions raise.
LEASE_LOST, NOT_HELD, OUTPUT_MOVED, WRONG_ISOLATION, WRONG_FORMAT = "SW001", "SW002", "SW003", "SW004", "SW005"
ITEMS_NOT_DEAD = "SW006"

_FULL = (pg.DiskFull, pg.OutOfMemory)
_MISSING = (pg.UndefinedTable, pg.UndefinedFunction, pg.InvalidSchemaName)
_BUSY = (
    pg.LockNotAvailable,
    pg.DeadlockDetected,
    pg.SerializationFailure,
    pg.QueryCanceled,
    pg.TooManyConnections,
    pg.ReadOnlySqlTransaction,  # a standby that is not promoted yet
)
_TRANSACTION_TIMEOUTS = ("25P03", "25P04")  # idle_in_transaction_session_timeout, transaction_timeout
_BROKEN = ("08", "57P")  # classes: connection errors, and a server that ends sessions
_TOO_LARGE = "54"  # class: limits of the server, which waiting does not change
_HINT = re.compile(r"\n\t.*")  # libpq's hint to check that the server is running, which our message contains

# The missing privilege, by the kind of object that the server names.
_GRANTS = {
    "database": "CREATE ON DATABASE {name}, or name a schema that the role owns",
    "schema": "USAGE ON SCHEMA {name}, and CREATE if the frontier is to be created in it",
    "table": "SELECT, INSERT, UPDATE, DELETE ON ALL TABLES IN the frontier's SCHEMA",
    "sequence": "USAGE ON ALL SEQUENCES IN the frontier's SCHEMA",
    "function": "EXECUTE ON ALL FUNCTIONS IN the frontier's SCHEMA",
}
_DENIED = re.compile(r"permission denied for (\w+) (.+)")


@contextmanager
def translate_errors(display_url: str, *, doing: str, elsewhere: str | None = None) -> Iterator[None]:
    """Raise the errors of psycopg as errors of swath.

    For a caller's connection, `elsewhere` is the message if its database does not hold the frontier.
    """
    try:
        yield
    except _MISSING as error:
        if elsewhere is not None:
            raise WrongTransaction(elsewhere) from error
        raise translate_error(error, display_url, doing=doing) from error
    except psycopg.Error as error:
        if elsewhere is not None and error.sqlstate in _TRANSACTION_TIMEOUTS:
            raise WrongTransaction(
                f"{doing}: the server ended the transaction, which took too long ({error.diag.message_primary}). "
                "Make the transaction shorter, or the limit longer"
            ) from error
        raise translate_error(error, display_url, doing=doing) from error


def translate_error(error: psycopg.Error, display_url: str, *, doing: str) -> SwathError:
    """Return the SwathError for an error of psycopg. Its message says what to do."""
    message = (error.diag.message_primary or str(error)).strip()
    if (raised := _translate_own(error.sqlstate, message, display_url, doing)) is not None:
        return raised
    if isinstance(error, pg.UniqueViolation):
        return InvalidOutcome(f"{doing}: the range that was split off exists already ({error.diag.message_detail})")
    if isinstance(error, _FULL):
        return StoreFull(f"{display_url} has no room left ({message}). Make room and try again; nothing was changed")
    if isinstance(error, _MISSING):
        return NotAFrontier(f"{display_url} has no frontier (any more): {message}. `swath db init` makes one")
    if isinstance(error, pg.InsufficientPrivilege):
        return SwathError(f"{display_url} refused while {doing}: {message}. {_name_grant(message)}")
    if isinstance(error, _BUSY) or error.sqlstate in _TRANSACTION_TIMEOUTS:
        return StoreUnavailable(f"{display_url} is busy: {message}. Try again")
    if (error.sqlstate or "").startswith(_TOO_LARGE):
        return UsageError(f"{doing}: too large for PostgreSQL ({message}); nothing was changed. Pass less at once")
    if isinstance(error, psycopg.OperationalError | psycopg.InterfaceError):
        reason = " ".join(_HINT.sub("", message).split())
        return StoreUnavailable(f"{display_url} cannot be reached: {reason}. Is the server running, and the URL right?")
    return SwathError(f"{display_url} refused while {doing}: {message}")


def _translate_own(sqlstate: str | None, message: str, display_url: str, doing: str) -> SwathError | None:
    """Translate an error that a stored function raised."""
    if sqlstate == LEASE_LOST:
        return LeaseLost(_explain_lost(doing, message))
    if sqlstate == NOT_HELD:
        return InvalidOutcome(f"{doing}: the claim {message} of these items in this partition; nothing was settled")
    if sqlstate == ITEMS_NOT_DEAD:
        dead, named = message.split(" ")
        return InvalidOutcome(f"{doing}: {NOT_DEAD.format(dead=dead, named=named)}")
    if sqlstate == OUTPUT_MOVED:
        committed, believed, name = message.split(" ", 2)
        return OutputConflict(
            f"{doing}: output {name} is committed up to {committed} bytes, not {believed}; nothing was settled. "
            "Truncate the file to the committed length and write it again"
        )
    if sqlstate == WRONG_ISOLATION:
        return WrongTransaction(
            f"{doing}: {message}, and swath needs read committed; nothing was changed. Begin your own transaction as "
            "read committed; if it is not yours, set default_transaction_isolation of the role or database"
        )
    if sqlstate == WRONG_FORMAT:
        return build_format_error(int(message.rsplit(" ", 1)[1]), display_url)
    return None


def can_repeat(error: psycopg.Error) -> bool:
    """Return whether to repeat a statement at once: the connection broke, or PostgreSQL resolved a deadlock against it.

    Do not repeat a statement that ran into a lock timeout: it has waited long enough.
    """
    return error.sqlstate is None or error.sqlstate.startswith(_BROKEN) or isinstance(error, pg.DeadlockDetected)


def _name_grant(message: str) -> str:
    """Return a sentence with the GRANT that the role lacks, if the server names the object."""
    denied = _DENIED.match(message)
    if denied is None or denied[1] not in _GRANTS:
        return "Grant the role of this URL what is missing, or use the role that made the frontier"
    return f"Grant the role of this URL {_GRANTS[denied[1]].format(name=denied[2])}"


def _explain_lost(doing: str, message: str) -> str:
    state, ago = message.split(" ", 1)
    if state == "unknown":
        return f"{doing}: the store has no such claim (any more). Another worker has these items; discard the results"
    what = "was replaced after its lease expired" if state == "lost" else "has no lease any more: it expired"
    return (
        f"{doing}: the claim {what} {max(0, int(ago)) / SECOND:.1f} s ago. Another worker has these items or will; "
        "discard the results. If the work takes longer, pass a longer lease="
    )
