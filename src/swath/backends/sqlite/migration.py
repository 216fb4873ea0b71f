"""Numbered migrations: list them, and run those that a frontier lacks."""

import sqlite3
from importlib.resources import files
from typing import NamedTuple

from swath.backends.sqlite.format import FORMAT
from swath.backends.sqlite.location import SqliteLocation


class Migration(NamedTuple):
    """One file in `migrations/`."""

    number: int
    name: str
    script: str


def list_migrations() -> list[Migration]:
    """Return the migrations of this version of swath, in order. Their files are frozen once released."""
    folder = files("swath.backends.sqlite").joinpath("migrations")
    found = [
        Migration(int(file.name.split("_")[0]), file.name.removesuffix(".sql"), file.read_text(encoding="utf-8"))
        for file in folder.iterdir()
        if file.name.endswith(".sql")
    ]
    return sorted(found)


def apply_missing(connection: sqlite3.Connection, location: SqliteLocation, *, now: int) -> list[str]:
    """Run the migrations that the frontier lacks. The caller has begun a transaction and holds the write lock."""
    recorded = {name for name, _ in connection.execute(location.sql["migrations"])}
    missing = [migration for migration in list_migrations() if migration.name not in recorded]
    for migration in missing:
        run_script(connection, location.fill(migration.script))
        connection.execute(location.sql["record_migration"], {"name": migration.name, "applied_at": now})
    if missing:
        connection.execute(location.sql["save_format"], {"format": FORMAT})
    return [migration.name for migration in missing]


def run_script(connection: sqlite3.Connection, script: str) -> None:
    """Run statements one by one: `executescript` would commit the transaction that is open."""
    statement = ""
    for line in script.splitlines():
        statement += line + "\n"
        if sqlite3.complete_statement(statement):
            connection.execute(statement)
            statement = ""
    if any(line.strip() and not line.startswith("--") for line in statement.splitlines()):
        raise ValueError(f"a statement has no end: {statement!r}")
