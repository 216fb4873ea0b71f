"""SqliteLocation: the file of a frontier, and the prefix of its tables in that file.

The SQL files name tables `swath_…`. For another schema, the prefix is replaced once, when the statements are loaded.
"""

import re
from dataclasses import dataclass
from functools import lru_cache

from swath.backends.sql import Statements, load, read
from swath.core.errors import InvalidStoreURL

QUERIES = load("swath.backends.sqlite", "queries.sql")
TABLES = read("swath.backends.sqlite", "schema.sql")
DEFAULT_SCHEMA = "swath"
SCHEMAS_KEPT = 64  # schemas whose statements are cached

_NAME = re.compile(r"[a-z_][a-z0-9_]{0,39}")
_CREATED = re.compile(r"^CREATE (?:UNIQUE )?(?:TABLE|INDEX|VIEW|TRIGGER) (\w+)", re.MULTILINE)
_MARKS = ("frontier", "migration", "partition_state")  # tables of every format


@dataclass(frozen=True, slots=True)
class SqliteLocation:
    """The file, the schema and the SQL statements of one frontier."""

    path: str
    schema: str
    named: bool  # the caller named the schema, so the file may hold other tables
    sql: Statements

    @classmethod
    def of(cls, path: str, schema: str | None = None) -> "SqliteLocation":
        """Return the location of a frontier. Without a schema, the file holds nothing but the frontier."""
        name = DEFAULT_SCHEMA if schema is None else schema
        if not _NAME.fullmatch(name) or f"{name}_".startswith("sqlite_"):
            raise InvalidStoreURL(
                f"schema={name!r} cannot begin the name of a table in SQLite: use at most 40 lowercase letters, "
                "digits and _, and begin with neither a digit nor sqlite"
            )
        return cls(path, name, schema is not None, load_statements(name))

    def fill(self, script: str) -> str:
        """Return a script with this frontier's prefix in the names of tables."""
        return _rename_tables(script, self.schema)

    def create_script(self) -> str:
        """Return the script that creates this frontier's tables."""
        return self.fill(TABLES)

    def is_among(self, names: set[str]) -> bool:
        """Return whether a file with tables and indexes of these names holds this frontier."""
        return {f"{self.schema}_{mark}" for mark in _MARKS} <= names

    @staticmethod
    def list_schemas(names: set[str]) -> list[str]:
        """Return the schemas of all frontiers in a file with tables and indexes of these names."""
        last = f"_{_MARKS[-1]}"
        schemas = sorted(name.removesuffix(last) for name in names if name.endswith(last))
        return [
            schema for schema in schemas if _NAME.fullmatch(schema) and {f"{schema}_{mark}" for mark in _MARKS} <= names
        ]

    def find_clashes(self, names: set[str]) -> list[str]:
        """Return those of `names` that this frontier needs for its own tables and indexes."""
        return sorted(names.intersection(_CREATED.findall(self.create_script())))

    def __str__(self) -> str:
        return f"frontier {self.schema} in {self.path}" if self.named else self.path

    @property
    def url(self) -> str:
        return f"sqlite:///{self.path}?schema={self.schema}" if self.named else f"sqlite:///{self.path}"


@lru_cache(maxsize=SCHEMAS_KEPT)
def load_statements(schema: str) -> Statements:
    """Return every statement of the store, for tables with this prefix."""
    return Statements(QUERIES.source, {name: _rename_tables(text, schema) for name, text in QUERIES.items()})


def _rename_tables(text: str, schema: str) -> str:
    return text.replace(f"{DEFAULT_SCHEMA}_", f"{schema}_")
