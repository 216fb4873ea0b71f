"""open_table(url, table) -> Table: the only place that picks a kind of database."""

from collections.abc import Sequence
from urllib.parse import unquote, urlsplit

from swath.core.errors import MissingExtra, UsageError
from swath.core.redact import mask_password
from swath.tables.sqlite import SqliteTable
from swath.tables.table import Table

CONNECTIONS = 8  # of one process to one table, at the most


async def open_table(
    url: str, table: str, *, key: Sequence[str] | None = None, connections: int = CONNECTIONS
) -> Table:
    """Open a table by the URL of its database, as `postgresql://host/database` or `sqlite:///file.db`.

    `key` names the columns to go through it by, in order; its primary key if none are. UsageError where the table is
    not there or the key cannot be relied on, with what to do about that.
    """
    parts = urlsplit(url)
    match parts.scheme:
        case "postgresql" | "postgres":
            try:
                from swath.tables.postgres import PostgresTable
            except ImportError as error:
                raise MissingExtra("PostgreSQL needs psycopg: pip install 'swath[postgres]'") from error
            shown = mask_password(url)
            return await PostgresTable.open(url, table, key=key, shown=shown, connections=connections)
        case "sqlite" if not parts.netloc and parts.path not in ("", "/"):
            return await SqliteTable.open(unquote(parts.path.removeprefix("/")), table, key=key)
        case _:
            raise UsageError(
                f"{mask_password(url)!r} names no database: use postgresql://user@host/database or sqlite:///file.db"
            )
