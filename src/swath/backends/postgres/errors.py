"""What PostgreSQL says, in our words."""

import re
from collections.abc import Iterator
from contextlib import contextmanager

import psycopg
from psycopg import errors as pg

from swath.core.clock import SECOND
from swath.core.errors import (
    InvalidOutcome,
    LeaseLost,
    NotAFrontier,
    OutputConflict,
    SchemaOutdated,
    SchemaTooNew,
    StoreFull,
    StoreUnavailable,
    SwathError,
    UsageError,
    WrongTransaction,
)

FORMAT = 1

LEASE_LOST, NOT_HELD, OUTPUT_MOVED, WRONG_ISOLATION, WRONG_FORMAT = "SW001", "SW002", "SW003", "SW004", "SW005"

_FULL = (pg.DiskFull, pg.OutOfMemory)
_GONE = (pg.UndefinedTable, pg.UndefinedFunction, pg.InvalidSchemaName)
_WAIT = (
    pg.LockNotAvailable,
    pg.DeadlockDetected,
    pg.SerializationFailure,
    pg.QueryCanceled,
    pg.TooManyConnections,
    pg.ReadOnlySqlTransaction,  # a stand-by that is not promoted yet
)
_OUT_OF_TIME = ("25P03", "25P04")  # idle_in_transaction_session_timeout, transaction_timeout: they end the session
_BROKEN = ("08", "57P")  # the classes of errors about the connection, and about a server that ends sessions
_TOO_LARGE = "54"  # the class of errors about a limit of the server itself, which no waiting lifts
_HINT = re.compile(r"\n\t.*")  # what libpq asks, and we do

# What a role needs, by the kind of thing that the server says is denied.
_GRANTS = {
    "database": "CREATE ON DATABASE {name}, or name a schema that the role owns",
    "schema": "USAGE ON SCHEMA {name}, and CREATE where the frontier is to be made in it",
    "table": "SELECT, INSERT, UPDATE, DELETE ON ALL TABLES IN the frontier's SCHEMA",
    "view": "SELECT ON ALL TABLES IN the frontier's SCHEMA",
    "sequence": "USAGE ON ALL SEQUENCES IN the frontier's SCHEMA",
    "function": "EXECUTE ON ALL FUNCTIONS IN the frontier's SCHEMA",
}
_DENIED = re.compile(r"permission denied for (\w+) (.+)")


@contextmanager
def translated(shown: str, *, doing: str, elsewhere: str | None = None) -> Iterator[None]:
    """Raise what psycopg raises as an error of ours. `elsewhere` is for a caller's own connection: what to say when it
    leads to a database without the frontier."""
    try:
        yield
    except _GONE as error:
        if elsewhere is not None:
            raise WrongTransaction(elsewhere) from error
        raise translate(error, shown, doing=doing) from error
    except psycopg.Error as error:
        if elsewhere is not None and error.sqlstate in _OUT_OF_TIME:
            raise WrongTransaction(
                f"{doing}: the server has ended the transaction, which took too long ({error.diag.message_primary}). "
                "Make it shorter, or the limit longer"
            ) from error
        raise translate(error, shown, doing=doing) from error


def translate(error: psycopg.Error, shown: str, *, doing: str) -> SwathError:
    """The error of ours that tells the caller what to do."""
    said = (error.diag.message_primary or str(error)).strip()
    match error.sqlstate:
        case code if code == LEASE_LOST:
            return LeaseLost(_lost(doing, said))
        case code if code == NOT_HELD:
            return InvalidOutcome(f"{doing}: the claim {said} of these items in this partition; nothing was settled")
        case code if code == OUTPUT_MOVED:
            committed, believed, name = said.split(" ", 2)
            return OutputConflict(
                f"{doing}: output {name} is committed up to {committed} bytes, not {believed}; nothing was settled. "
                "Cut the file to the committed length and write it again"
            )
        case code if code == WRONG_ISOLATION:
            return WrongTransaction(
                f"{doing}: {said}, and swath needs read committed; nothing was changed. Begin your own transaction as "
                "read committed; where there is none, set default_transaction_isolation of the role or database to it"
            )
        case code if code == WRONG_FORMAT:
            return wrong_format(int(said.rsplit(" ", 1)[1]), shown)
    if isinstance(error, pg.UniqueViolation):
        return InvalidOutcome(f"{doing}: a range split off is there already ({error.diag.message_detail})")
    if isinstance(error, _FULL):
        return StoreFull(f"{shown} has no room left ({said}). Make room and try again; nothing was changed")
    if isinstance(error, _GONE):
        return NotAFrontier(f"{shown} has no frontier (any more): {said}. `swath db init` makes one")
    if isinstance(error, pg.InsufficientPrivilege):
        return SwathError(f"{shown} refused while {doing}: {said}. {_missing(said)}")
    if isinstance(error, _WAIT) or error.sqlstate in _OUT_OF_TIME:
        return StoreUnavailable(f"{shown} is busy: {said}. Try again")
    if (error.sqlstate or "").startswith(_TOO_LARGE):
        return UsageError(f"{doing}: too large for PostgreSQL ({said}); nothing was changed. Hand in less at once")
    if isinstance(error, psycopg.OperationalError | psycopg.InterfaceError):
        why = " ".join(_HINT.sub("", said).split())
        return StoreUnavailable(f"{shown} cannot be reached: {why}. Is the server running, and the URL right?")
    return SwathError(f"{shown} refused while {doing}: {said}")


def passes_at_once(error: psycopg.Error) -> bool:
    """Whether the same statement may go through right away: the connection broke, or another won a deadlock. Whoever
    waited for a lock in vain has waited."""
    return error.sqlstate is None or error.sqlstate.startswith(_BROKEN) or isinstance(error, pg.DeadlockDetected)


def wrong_format(found: int, shown: str) -> SwathError:
    if found < FORMAT:
        return SchemaOutdated(
            f"{shown} has format {found}, this swath works with {FORMAT}: run `swath db migrate --store '{shown}'`"
        )
    return SchemaTooNew(f"{shown} has format {found}, this swath works with {FORMAT}: upgrade swath")


def _missing(said: str) -> str:
    """The GRANT that a role lacks, as far as the server tells."""
    denied = _DENIED.match(said)
    if denied is None or denied[1] not in _GRANTS:
        return "Grant the role of this URL what is missing, or use the role that made the frontier"
    return f"Grant the role of this URL {_GRANTS[denied[1]].format(name=denied[2])}"


def _lost(doing: str, said: str) -> str:
    state, ago = said.split(" ", 1)
    if state == "unknown":
        return f"{doing}: the store knows no such claim (any more). Another worker has these items; discard the results"
    what = "was replaced after its lease ended" if state == "lost" else "has no lease any more: it ended"
    return (
        f"{doing}: the claim {what} {max(0, int(ago)) / SECOND:.1f} s ago. Another worker has these items or will; "
        "discard the results. Longer work wants a longer lease="
    )
