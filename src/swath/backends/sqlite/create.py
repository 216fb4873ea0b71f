"""Inspect a file, and create a frontier in it without touching other contents."""

import os
import sqlite3
from contextlib import closing
from functools import partial
from typing import NamedTuple
from urllib.parse import quote

from swath.backends.sqlite.connection import open_connection, retry_while_busy
from swath.backends.sqlite.errors import translate_errors
from swath.backends.sqlite.format import FORMAT
from swath.backends.sqlite.location import SqliteLocation
from swath.backends.sqlite.migration import list_migrations, run_script
from swath.backends.sqlite.open_files import check_fork
from swath.core.errors import InvalidStoreURL, NotAFrontier, StoreUnavailable
from swath.core.store import Settings

APPLICATION_ID = 0x73777468  # "swth", in the header of a file that holds nothing but a frontier


def ensure_frontier(location: SqliteLocation, settings: Settings | None, *, create: bool, now: int) -> None:
    """Create the frontier unless it exists. Do not touch other contents of the file."""
    check_fork(location.path)
    with translate_errors(location.path):
        found = inspect_file(location)
        if found.has_frontier(location):
            return
        found.check_room(location)
        if create and not os.path.isdir(directory := os.path.dirname(location.path)):
            raise InvalidStoreURL(
                f"{location.path} cannot be created: the directory {directory} does not exist. Create it first"
            )
        if not create:
            where = f"named {location.schema} in" if location.named else "at"
            raise NotAFrontier(
                f"there is no frontier {where} {location.path}: check the name, or create one by adding to it"
            )
        connection = open_connection(location.path)
        try:
            # Before WAL is enabled, so that the application id is in the file itself and not only in the log.
            retry_while_busy(partial(create_tables, connection, location, settings or Settings(partitions=1), now))
        finally:
            connection.close()


class _FileContents(NamedTuple):
    """The application id of a file, and the names of its tables and indexes."""

    mark: int  # the application id in the header
    names: set[str]  # names of tables and indexes

    def has_frontier(self, location: SqliteLocation) -> bool:
        return location.is_among(self.names)

    def check_room(self, location: SqliteLocation) -> None:
        """Raise NotAFrontier if a frontier must not be created in the file."""
        if not location.named and (self.names or self.mark not in (0, APPLICATION_ID)):
            raise NotAFrontier(
                f"{location.path} is a database of something else; nothing was changed. Name another file, or add "
                "?schema=name to the URL to create a frontier beside the other tables"
            )
        if clashes := location.find_clashes(self.names):
            raise NotAFrontier(
                f"{location.path} has {', '.join(clashes)} already, not made by swath; nothing was changed. "
                f"Choose another name than schema={location.schema}"
            )


def inspect_file(location: SqliteLocation) -> _FileContents:
    """Read the contents of the file without creating or changing anything."""
    try:
        if os.path.getsize(location.path) == 0:
            return _FileContents(0, set())
    except (FileNotFoundError, NotADirectoryError):
        return _FileContents(0, set())
    except OSError as error:  # for example, this user may not enter a directory on the way
        raise StoreUnavailable(
            f"{location.path} cannot be reached: {error.strerror}. "
            "Check that this user may enter every directory on the way"
        ) from error
    return retry_while_busy(partial(_read_unlocked, location))


def read_names(location: SqliteLocation) -> set[str]:
    """Return the names of the tables and indexes in the file; none if it does not exist. Do not change anything."""
    return inspect_file(location).names


def _read_unlocked(location: SqliteLocation) -> _FileContents:
    """Read the file with `immutable`, which neither locks nor writes, unless a process is writing to it.

    Do not read it without SQLite: closing it would drop the locks that this process holds through SQLite.
    """
    before = _read_file_state(location.path)
    if not before.journal and not before.wal:
        try:
            found = _read(location, "mode=ro&immutable=1")
        except sqlite3.DatabaseError:
            if _read_file_state(location.path) == before:
                raise
        else:
            if _read_file_state(location.path) == before:
                return found
    # A journal means that a process is changing the file, or crashed while it did: let SQLite recover it.
    return _read(location, "mode=rw" if before.journal else "mode=ro")


class _FileState(NamedTuple):
    """Facts about a file that change when a process writes to it."""

    journal: bool
    wal: bool
    size: int
    modified: int


def _read_file_state(path: str) -> _FileState:
    stat = os.stat(path)
    return _FileState(os.path.exists(f"{path}-journal"), os.path.exists(f"{path}-wal"), stat.st_size, stat.st_mtime_ns)


def _read(location: SqliteLocation, mode: str) -> _FileContents:
    with closing(
        sqlite3.connect(f"file:{quote(os.fsencode(location.path))}?{mode}", uri=True, isolation_level=None, timeout=0)
    ) as connection:
        return _read_contents(connection, location)


def _read_contents(connection: sqlite3.Connection, location: SqliteLocation) -> _FileContents:
    (mark,) = connection.execute("PRAGMA application_id").fetchone()
    return _FileContents(mark, {name for (name,) in connection.execute(location.sql["names"])})


def create_tables(connection: sqlite3.Connection, location: SqliteLocation, settings: Settings, now: int) -> None:
    connection.execute("BEGIN IMMEDIATE")
    try:
        found = _read_contents(connection, location)
        if not found.has_frontier(location):  # another process may have created it
            found.check_room(location)
            if not location.named:
                connection.execute(f"PRAGMA application_id = {APPLICATION_ID}")
            run_script(connection, location.create_script())
            for migration in list_migrations():
                connection.execute(location.sql["record_migration"], {"name": migration.name, "applied_at": now})
            connection.execute(location.sql["insert_frontier"], {"format": FORMAT, **settings._asdict()})
            connection.executemany(
                location.sql["insert_partition"], [(number,) for number in range(settings.partitions)]
            )
        connection.execute("COMMIT")
    except BaseException:
        if connection.in_transaction:
            connection.execute("ROLLBACK")
        raise
