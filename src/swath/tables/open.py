"""open_table(url, table): choose the kind of database by the URL."""

from collections.abc import Sequence
from urllib.parse import unquote, urlsplit

from swath import MissingExtra, UsageError, mask_password
from swath.tables.sqlite import SqliteTable
from swath.tables.table import Table

MAX_CONNECTIONS = 8  # per process and table


async def open_table(
    url: str, table: str, *, key: Sequence[str] | None = None, connections: int = MAX_CONNECTIONS
) -> Table:
    """Open a table by the URL of its database: `postgresql://host/database` or `sqlite:///file.db`.

    `key` names the columns to order the table by; the default is the primary key. Raise UsageError if the table does
    not exist or the key is not unique, not indexed or nullable. The message says how to fix that.
    """
    parts = urlsplit(url)
    match parts.scheme:
        case "postgresql" | "postgres":
            try:
                from swath.tables.postgres import PostgresTable
            except ImportError as error:
                raise MissingExtra("PostgreSQL needs psycopg: pip install 'swath[postgres]'") from error
            label = mask_password(url)
            return await PostgresTable.open(url, table, key=key, label=label, connections=connections)
        case "sqlite" if not parts.netloc and parts.path not in ("", "/"):
            return await SqliteTable.open(unquote(parts.path.removeprefix("/")), table, key=key)
        case _:
            raise UsageError(
                f"{mask_password(url)!r} is not the URL of a database. "
                "Use postgresql://user@host/database or sqlite:///file.db"
            )
