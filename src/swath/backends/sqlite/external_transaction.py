"""Settle inside the caller's own transaction: its writes and the settlement commit together (INV-5)."""

import os
import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager

from swath.backends.sqlite.errors import is_busy, translate_error
from swath.backends.sqlite.location import SqliteLocation
from swath.backends.sqlite.open_files import read_inode
from swath.backends.sqlite.settle import settle
from swath.backends.sqlite.state import start_session
from swath.core.clock import MachineClock
from swath.core.errors import StoreUnavailable, SwathError, WrongTransaction
from swath.core.store import ClaimRef, Settlement, SettleReply


def settle_within(
    connection: object,
    ref: ClaimRef,
    settlement: Settlement,
    *,
    location: SqliteLocation,
    inode: tuple[int, int],
    machine: MachineClock,
) -> SettleReply:
    """Settle on the caller's connection, in the caller's thread. If that fails, roll back the transaction."""
    if not isinstance(connection, sqlite3.Connection):
        raise WrongTransaction(
            f"connection= is a {type(connection).__module__}.{type(connection).__qualname__}; "
            f"a frontier in {location.path} settles on an sqlite3.Connection"
        )
    with _read_plain_rows(connection):
        _check(connection, location.path, inode)
        _lock(connection, settlement.partition, location)
        try:
            return settle(start_session(connection, machine, location, writes=True), ref, settlement)
        except BaseException as error:
            _roll_back(connection)  # the caller's writes must not commit without the settlement
            if isinstance(error, sqlite3.Error):
                raise translate_error(error, location.path) from error
            if isinstance(error, SwathError):
                raise type(error)(f"{error} The transaction on `connection` was rolled back.") from error
            raise


def _roll_back(connection: sqlite3.Connection) -> None:
    connection.rollback()
    if connection.in_transaction and getattr(connection, "autocommit", None) is True:
        connection.execute("ROLLBACK")  # since Python 3.12, rollback() does nothing if autocommit=True


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
    """Acquire the write lock before reading anything. If that fails, the transaction stays open and unchanged."""
    try:
        connection.execute(location.sql["lock_partition"], (partition,))
    except sqlite3.Error as error:
        if getattr(error, "sqlite_errorname", "") == "SQLITE_BUSY_SNAPSHOT":
            raise WrongTransaction(
                "another connection wrote after the transaction on `connection` began to read, so it cannot write. "
                "Roll it back and begin it with BEGIN IMMEDIATE"
            ) from error
        if is_busy(error):
            raise StoreUnavailable(
                f"{location.path} is locked by another process, and the transaction on `connection` does not hold "
                "the write lock. Begin it with BEGIN IMMEDIATE, and try again"
            ) from error
        raise translate_error(error, location.path) from error


@contextmanager
def _read_plain_rows(connection: sqlite3.Connection) -> Iterator[None]:
    """Read rows as tuples and text as str inside the block, whatever factories the caller has set."""
    factories = connection.row_factory, connection.text_factory
    connection.row_factory, connection.text_factory = None, str
    try:
        yield
    finally:
        connection.row_factory, connection.text_factory = factories
