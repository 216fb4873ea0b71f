"""Which frontier is meant: a file, and the name that its tables there begin with.

The SQL files are written for tables called `swath_…`. A frontier under another name has the same statements with that
one token replaced, once, when they are read.
"""

import re
from dataclasses import dataclass
from functools import lru_cache

from swath.backends.sql import Statements, load, read
from swath.core.errors import InvalidStoreURL

QUERIES = load("swath.backends.sqlite", "queries.sql")
TABLES = read("swath.backends.sqlite", "schema.sql")
DEFAULT_SCHEMA = "swath"
SCHEMAS_KEPT = 64  # of which the statements stay in memory

_NAME = re.compile(r"[a-z_][a-z0-9_]{0,39}")
_CREATED = re.compile(r"^CREATE (?:UNIQUE )?(?:TABLE|INDEX|VIEW|TRIGGER) (\w+)", re.MULTILINE)
_MARKS = ("frontier", "migration", "partition_state")  # tables that a frontier of any format has


@dataclass(frozen=True, slots=True)
class SqliteLocation:
    path: str
    schema: str
    named: bool  # the schema was asked for, so the file may be somebody's own
    sql: Statements

    @classmethod
    def of(cls, path: str, schema: str | None = None) -> "SqliteLocation":
        """The frontier of this name in a file; without one it is the only thing that the file holds."""
        name = DEFAULT_SCHEMA if schema is None else schema
        if not _NAME.fullmatch(name) or f"{name}_".startswith("sqlite_"):
            raise InvalidStoreURL(
                f"schema={name!r} is no name for tables in SQLite: small letters, digits and _, at most 40, "
                "not beginning with a digit or with sqlite"
            )
        return cls(path, name, schema is not None, statements(name))

    def fill(self, script: str) -> str:
        """A script with the names of this frontier's tables."""
        return _rename_tables(script, self.schema)

    def tables(self) -> str:
        """The script that creates this frontier's tables."""
        return self.fill(TABLES)

    def is_among(self, names: set[str]) -> bool:
        """Whether a file with tables and indexes of these names holds this frontier."""
        return {f"{self.schema}_{mark}" for mark in _MARKS} <= names

    def clashes(self, names: set[str]) -> list[str]:
        """Those of the names that this frontier would need for its own tables and indexes."""
        return sorted(names.intersection(_CREATED.findall(self.tables())))

    def __str__(self) -> str:
        return f"frontier {self.schema} in {self.path}" if self.named else self.path

    @property
    def url(self) -> str:
        return f"sqlite:///{self.path}?schema={self.schema}" if self.named else f"sqlite:///{self.path}"


@lru_cache(maxsize=SCHEMAS_KEPT)
def statements(schema: str) -> Statements:
    """Every statement of the store, for tables that begin with this name."""
    return Statements(QUERIES.source, {name: _rename_tables(text, schema) for name, text in QUERIES.items()})


def _rename_tables(text: str, schema: str) -> str:
    return text.replace(f"{DEFAULT_SCHEMA}_", f"{schema}_")
