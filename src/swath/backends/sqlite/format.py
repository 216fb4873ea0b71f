"""The format of a frontier's tables: its number, and whether the tables in a file have that format.

`FORMAT` rises with every change of a table. tests/unit/test_formats.py fails if a table file changes and `FORMAT`
does not.
"""

import sqlite3
from contextlib import closing
from functools import lru_cache

from swath.backends.sqlite.location import SCHEMAS_KEPT, SqliteLocation
from swath.core.errors import SchemaError, SchemaOutdated, SchemaTooNew

FORMAT = 3  # the number of the last migration

# Every column, as "table.column", and every index.
_PARTS = """
    SELECT t.name || '.' || c.name FROM sqlite_master AS t JOIN pragma_table_info(t.name) AS c WHERE t.type = 'table'
    UNION ALL
    SELECT name FROM sqlite_master WHERE type = 'index' AND sql IS NOT NULL
"""


def check_format(stored: int, location: SqliteLocation) -> None:
    """Raise SchemaOutdated or SchemaTooNew unless the store has the format of this version."""
    if stored < FORMAT:
        raise SchemaOutdated(
            f"{location} has format {stored}, and this version of swath works with format {FORMAT}: "
            f"run `swath db migrate --store '{location.url}'`"
        )
    if stored > FORMAT:
        raise SchemaTooNew(
            f"{location} has format {stored}, and this version of swath knows formats up to {FORMAT}: upgrade swath"
        )


def check_tables(connection: sqlite3.Connection, location: SqliteLocation) -> None:
    """Raise SchemaError if a table, column or index of the format is missing. Additional ones do no harm.

    They are missing only if something else changed the tables, or if an unreleased version of swath made them.
    """
    row = connection.execute(location.sql["format"]).fetchone()
    if row is not None:
        check_format(row[0], location)
    missing = sorted(_read_expected_parts(location.schema) - {name for (name,) in connection.execute(_PARTS)})
    if missing:
        shown = ", ".join(missing[:3]) + (f" and {len(missing) - 3} more" if len(missing) > 3 else "")
        raise SchemaError(
            f"{location} does not have the tables of format {FORMAT}: {shown} is missing. Something else changed its "
            "tables, or an unreleased version of swath made it, which `swath db migrate` cannot mend. Restore a "
            "backup, finish the work with the version that made it, or add the items to a new frontier"
        )


@lru_cache(maxsize=SCHEMAS_KEPT)
def _read_expected_parts(schema: str) -> frozenset[str]:
    with closing(sqlite3.connect(":memory:")) as connection:
        connection.executescript(SqliteLocation.of(":memory:", schema).create_script())
        return frozenset(name for (name,) in connection.execute(_PARTS))
