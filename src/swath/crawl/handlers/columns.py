"""Columns: the fields of a class of items and their types, for CSV and Parquet.

The frontier keeps them as a fact for each kind, so that an export needs no code: a column exists and has its type even
if all of its values are None, and the columns have the order of the class.
"""

import dataclasses
import enum
from collections.abc import Iterable, Mapping
from datetime import date, datetime, time
from decimal import Decimal
from pathlib import PurePath
from types import UnionType
from typing import Any, Final, Literal, Union, get_args, get_origin, get_type_hints
from uuid import UUID

from swath import Frontier

COLUMNS_FACT: Final = "columns of "  # key of the fact with the columns of a kind: this prefix and the kind
JSON, ANY = "json", "any"  # lists and mappings; what the values decide
NAMES: Final = {str: "str", int: "int", float: "float", bool: "bool"}
_AS_TEXT = (str, datetime, date, time, Decimal, UUID, PurePath)
_AS_JSON = (list, tuple, Mapping)

Columns = Mapping[str, str]  # name of the field -> str, int, float, bool, JSON or ANY


def describe_columns(found: type) -> Columns:
    """Return the fields of a dataclass or model with their types, in order."""
    try:
        hints = get_type_hints(found)
    except Exception:  # noqa: BLE001  annotations are the user's code, and may name what is not there at run time
        hints = {}
    return {name: _name_type(hints.get(name)) for name in _list_names(found)}


def build_column_facts(classes: Mapping[str, type], kinds: Iterable[str]) -> dict[str, Any]:
    """Return the facts with the columns of some kinds. Kinds without a class, such as dicts, have none."""
    described = {kind: describe_columns(classes[kind]) for kind in kinds if kind in classes}
    return {COLUMNS_FACT + kind: list(columns.items()) for kind, columns in described.items()}


async def read_columns(frontier: Frontier, kinds: Iterable[str]) -> dict[str, Columns]:
    """Return the columns of those kinds that have a class."""
    facts = await frontier.facts([COLUMNS_FACT + kind for kind in kinds])
    return {key.removeprefix(COLUMNS_FACT): dict(columns) for key, columns in facts.items()}


def _list_names(found: type) -> list[str]:
    if dataclasses.is_dataclass(found):
        return [field.name for field in dataclasses.fields(found)]
    names: Any = getattr(found, "model_fields", None) or getattr(found, "__struct_fields__", ())
    return list(names)


def _name_type(hint: Any) -> str:
    origin = get_origin(hint)
    if origin in (Union, UnionType):
        return _join({_name_type(one) for one in get_args(hint) if one is not type(None)})
    if origin is Literal:
        return _join({NAMES.get(type(one), ANY) for one in get_args(hint) if one is not None})
    kind = origin or hint
    if not isinstance(kind, type):
        return ANY
    if kind in NAMES:
        return NAMES[kind]
    if issubclass(kind, enum.Enum):
        return _join({NAMES.get(type(one.value), ANY) for one in kind})
    if issubclass(kind, _AS_TEXT):
        return NAMES[str]
    is_json = issubclass(kind, _AS_JSON) or dataclasses.is_dataclass(kind) or bool(_list_names(kind))
    return JSON if is_json else ANY


def _join(names: set[str]) -> str:
    """Return the type of a column whose values have one of these types."""
    if names == {"int", "float"}:
        return "float"
    return names.pop() if len(names) == 1 else ANY
