"""The types of columns, as far as they decide on canonical forms."""

import re
from dataclasses import dataclass
from typing import Literal

PostgresKind = Literal["base", "array", "composite", "range", "multirange", "enum"]

# PostgreSQL's types by the class of their values. The class of any other base type is "other".
_CLASSES = {
    "number": ("int2", "int4", "int8", "oid", "numeric", "float4", "float8"),
    "text": ("text", "varchar", "bpchar", "char", "name", "citext"),
    "boolean": ("bool",),
    "bytes": ("bytea",),
    "uuid": ("uuid",),
    "json": ("json", "jsonb"),
    "date": ("date",),
    "time": ("time",),
    "timestamp": ("timestamp",),
    "timestamptz": ("timestamptz",),
}
_CLASS_BY_NAME = {name: class_ for class_, names in _CLASSES.items() for name in names}
TIMES = ("date", "time", "timestamp", "timestamptz")


@dataclass(frozen=True, slots=True)
class PostgresType:
    """A type without its domains. `parts` are the element of an array or a range, or the fields of a composite."""

    name: str
    kind: PostgresKind = "base"
    parts: tuple["PostgresType", ...] = ()
    fields: tuple[str, ...] = ()

    @property
    def value_class(self) -> str:
        if self.kind == "enum":
            return "text"
        if self.kind == "array":
            return "array"
        return _CLASS_BY_NAME.get(self.name, "other") if self.kind == "base" else "other"


@dataclass(frozen=True, slots=True)
class SqliteType:
    """The declared type of a column. Any column may hold values of any class."""

    declared: str  # in upper case

    @property
    def value_class(self) -> str:
        """What the declared type says about the values: number, text, boolean, time, uuid, json or any."""
        name = re.sub(r"\(.*", "", self.declared).strip()
        for class_, pattern in (
            ("boolean", "BOOL(EAN)?"),
            ("time", "(DATE|TIME|DATETIME|TIMESTAMP|TIMESTAMPTZ)( .*)?"),
            ("uuid", "UUID|GUID"),
            ("json", "JSONB?"),
        ):
            if re.fullmatch(pattern, name):
                return class_
        if "INT" in name:
            return "number"
        if any(word in name for word in ("CHAR", "CLOB", "TEXT")):
            return "text"
        return "any" if not name or "BLOB" in name else "number"

    @property
    def holds_floats(self) -> bool:
        return self.value_class == "number" and "INT" not in self.declared


ColumnType = PostgresType | SqliteType
