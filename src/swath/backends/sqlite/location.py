"""Where a frontier is: a file, and the prefix of its tables there.

The SQL files are written for tables called `swath_…`. For another schema, that prefix is replaced once, when the
statements are read.
"""

import re
from dataclasses import dataclass
from functools import lru_cache

from swath.backends.sql import Statements, load, read
from swath.core.errors import InvalidStoreURL

QUERIES = load("swath.backends.sqlite", "queries.sql")
TABLES = read("swath.backends.sqlite", "schema.sql")
DEFAULT_SCHEMA = "swath"
SCHEMAS_KEPT = 64  # schemas whose statements stay in memory

_NAME = re.compile(r"[a-z_][a-z0-9_]{0,39}")
_CREATED = re.compile(r"^CREATE (?:UNIQUE )?(?:TABLE|INDEX|VIEW|TRIGGER) (\w+)", re.MULTILINE)
_MARKS = ("frontier", "migration", "partition_state")  # tables of every format


@dataclass(frozen=True, slots=True)
class SqliteLocation:
    path: str
    schema: str
    named: bool  # the caller named the schema, so the file may hold other tables
    sql: Statements

    @classmethod
    def of(cls, path: str, schema: str | None = None) -> "SqliteLocation":
        """Return the location of the frontier with this schema; without one, the file holds nothing else."""
        name = DEFAULT_SCHEMA if schema is None else schema
        if not _NAME.fullmatch(name) or f"{name}_".startswith("sqlite_"):
            raise InvalidStoreURL(
                f"schema={name!r} cannot begin the name of a table in SQLite: use at most 40 lowercase letters, "
                "digits and _, and begin with neither a digit nor sqlite"
            )
        return cls(path, name, schema is not None, statements(name))

    def fill(self, script: str) -> str:
        """Return a script with the names of this frontier's tables."""
        return _rename_tables(script, self.schema)

    def tables(self) -> str:
        """Return the script that creates this frontier's tables."""
        return self.fill(TABLES)

    def is_among(self, names: set[str]) -> bool:
        """Return whether a file with tables and indexes of these names holds this frontier."""
        return {f"{self.schema}_{mark}" for mark in _MARKS} <= names

    def clashes(self, names: set[str]) -> list[str]:
        """Return the names that this frontier needs for its own tables and indexes."""
        return sorted(names.intersection(_CREATED.findall(self.tables())))

    def __str__(self) -> str:
        return f"frontier {self.schema} in {self.path}" if self.named else self.path

    @property
    def url(self) -> str:
        return f"sqlite:///{self.path}?schema={self.schema}" if self.named else f"sqlite:///{self.path}"


@lru_cache(maxsize=SCHEMAS_KEPT)
def statements(schema: str) -> Statements:
    """Return every statement of the store, for tables with this prefix."""
    return Statements(QUERIES.source, {name: _rename_tables(text, schema) for name, text in QUERIES.items()})


def _rename_tables(text: str, schema: str) -> str:
    return text.replace(f"{DEFAULT_SCHEMA}_", f"{schema}_")
