"""Delete a frontier: its file if the file holds nothing else, otherwise its tables."""

import os
import sqlite3
from contextlib import closing
from functools import partial

from swath.backends.sqlite.connection import open_connection, resolve_path, retry_while_busy
from swath.backends.sqlite.create import read_names
from swath.backends.sqlite.errors import is_busy, translate_errors
from swath.backends.sqlite.format import FORMAT
from swath.backends.sqlite.location import SqliteLocation
from swath.backends.sqlite.open_files import check_fork
from swath.backends.sqlite.state import start_session
from swath.core.clock import StoreClock, SystemClock, choose_offset
from swath.core.deletion import build_in_use_error
from swath.core.errors import NotAFrontier, StoreUnavailable

SUFFIXES = ("-turn", "")  # of the files that remain when the database is not in WAL mode

_LIVE_CLAIM = """
SELECT c.worker, count(*), max(c.expires_at) FROM {schema}_claimed AS i JOIN {schema}_claim AS c ON c.fence = i.fence
WHERE c.lost = 0 AND c.expires_at > ? GROUP BY c.worker ORDER BY 3 DESC LIMIT 1
"""


def delete(path: str, *, schema: str | None) -> None:
    """Delete the frontier. Raise NotAFrontier if there is none, StoreUnavailable if another process uses it."""
    location = SqliteLocation.of(resolve_path(path), schema)
    check_fork(location.path)
    with translate_errors(location.path):
        names = read_names(location)
        if not location.is_among(names):
            raise NotAFrontier(f"there is no {location if location.named else f'frontier at {location}'}")
        own = set(location.find_clashes(names))
        with closing(open_connection(location.path)) as connection:
            if location.named or any(not name.startswith("sqlite_") for name in names - own):
                retry_while_busy(partial(_drop_tables, connection, location, own))
            else:
                _lock(connection, location)
                for suffix in SUFFIXES:
                    if os.path.lexists(location.path + suffix):
                        os.unlink(location.path + suffix)


def _lock(connection: sqlite3.Connection, location: SqliteLocation) -> None:
    """Take the exclusive lock. Raise StoreUnavailable if another process has the file open.

    Only the last connection to a file can leave WAL mode. This also removes the log: if it stayed without its database,
    SQLite would replay it into the next one.
    """
    try:
        (mode,) = connection.execute("PRAGMA journal_mode = DELETE").fetchone()
        if mode == "delete":
            connection.execute("BEGIN EXCLUSIVE")
            return
    except sqlite3.OperationalError as error:
        if not is_busy(error):
            raise
    raise StoreUnavailable(f"{location.path} is open in another process: end that process first. Nothing was deleted")


def _drop_tables(connection: sqlite3.Connection, location: SqliteLocation, own: set[str]) -> None:
    connection.execute("BEGIN IMMEDIATE")
    try:
        statement = _LIVE_CLAIM.format(schema=location.schema)
        clock = _read_clock(connection, location)
        found = connection.execute(statement, (clock.now(),)).fetchone()
        if found is not None:
            worker, items, expires_at = found
            raise build_in_use_error(str(location), worker, items, clock.to_wall(expires_at))
        for kind, name in connection.execute("SELECT type, name FROM sqlite_master").fetchall():
            if name.lower() in own and kind != "index":  # indexes go with their tables
                connection.execute(f'DROP {kind} "{name}"')
        connection.execute("COMMIT")
    except BaseException:
        if connection.in_transaction:
            connection.execute("ROLLBACK")
        raise


def _read_clock(connection: sqlite3.Connection, location: SqliteLocation) -> StoreClock:
    """Return the frontier's clock. Tables of another format do not tell it, so use the wall clock."""
    machine, found = SystemClock(), connection.execute(location.sql["format"]).fetchone()
    if found is None or found[0] != FORMAT:
        return StoreClock(machine, choose_offset(machine, latest=0))
    return start_session(connection, machine, location, writes=False).clock
