"""Settling inside the caller's own transaction: its writes and the settlement commit together (INV-5, rule 14)."""

import os
import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager

from swath.backends.sqlite.errors import is_busy, translate_error
from swath.backends.sqlite.location import SqliteLocation
from swath.backends.sqlite.open_files import read_inode
from swath.backends.sqlite.settle import settle
from swath.backends.sqlite.state import begin
from swath.core.clock import Clock
from swath.core.errors import StoreUnavailable, SwathError, WrongTransaction
from swath.core.store import ClaimRef, Settlement, SettleReply


def settle_within(
    connection: object,
    ref: ClaimRef,
    settlement: Settlement,
    *,
    location: SqliteLocation,
    inode: tuple[int, int],
    clock: Clock,
) -> SettleReply:
    """Settle on the caller's connection, in the caller's thread. If that fails, its transaction is rolled back."""
    if not isinstance(connection, sqlite3.Connection):
        raise WrongTransaction(
            f"connection= is a {type(connection).__module__}.{type(connection).__qualname__}; "
            f"a frontier in {location.path} settles on an sqlite3.Connection"
        )
    with _plain_rows(connection):
        _check(connection, location.path, inode)
        _lock(connection, settlement.partition, location)
        try:
            return settle(begin(connection, clock, location), ref, settlement)
        except BaseException as error:
            _roll_back(connection)  # without the settlement the caller's writes must not commit either
            if isinstance(error, sqlite3.Error):
                raise translate_error(error, location.path) from error
            if isinstance(error, SwathError):
                raise type(error)(f"{error} The transaction on `connection` was rolled back.") from error
            raise


def _roll_back(connection: sqlite3.Connection) -> None:
    connection.rollback()
    if connection.in_transaction and getattr(connection, "autocommit", None) is True:
        connection.execute("ROLLBACK")  # which rollback() leaves to the caller there, from Python 3.12 on


def _check(connection: sqlite3.Connection, path: str, inode: tuple[int, int]) -> None:
    try:
        main = next(file for _, name, file in connection.execute("PRAGMA database_list") if name == "main")
    except sqlite3.Error as error:
        raise WrongTransaction(f"`connection` cannot be used: {error}") from error
    if not main or not os.path.exists(main) or read_inode(main) != inode:
        raise WrongTransaction(
            f"`connection` is on {main or 'a database in memory'}, the frontier is {path}: open the same file"
        )
    if not connection.in_transaction:
        raise WrongTransaction(
            "`connection` has no open transaction. Run connection.execute('BEGIN IMMEDIATE'), your own writes, "
            "then settle, then commit"
        )


def _lock(connection: sqlite3.Connection, partition: int, location: SqliteLocation) -> None:
    """Take the write lock before anything is read (rule 1). A transaction that cannot have it is left as it is."""
    try:
        connection.execute(location.sql["lock_partition"], (partition,))
    except sqlite3.Error as error:
        if getattr(error, "sqlite_errorname", "") == "SQLITE_BUSY_SNAPSHOT":
            raise WrongTransaction(
                "the transaction on `connection` read before somebody else wrote, so it can no longer write. "
                "Roll it back and begin it with BEGIN IMMEDIATE"
            ) from error
        if is_busy(error):
            raise StoreUnavailable(
                f"{location.path} is locked by another process, and the transaction on `connection` does not hold "
                "the write lock. Begin it with BEGIN IMMEDIATE, and try again"
            ) from error
        raise translate_error(error, location.path) from error


@contextmanager
def _plain_rows(connection: sqlite3.Connection) -> Iterator[None]:
    """Rows as tuples and texts as str, however the caller likes them."""
    factories = connection.row_factory, connection.text_factory
    connection.row_factory, connection.text_factory = None, str
    try:
        yield
    finally:
        connection.row_factory, connection.text_factory = factories
