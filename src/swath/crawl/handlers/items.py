"""Items: what a handler yields besides links, and how it becomes a line of an output file.

An item is a dict, a dataclass, or a pydantic or msgspec model. Its kind names the output that it is written to: the
name of its class, or `item` for dicts.
"""

import dataclasses
import enum
import json
import re
from collections.abc import Mapping
from datetime import date, datetime, time
from decimal import Decimal
from pathlib import PurePath
from typing import Any, ClassVar, Final, Protocol
from uuid import UUID

from swath.crawl.archive.record import ItemLine
from swath.crawl.handlers.errors import InvalidYield

DICT_KIND: Final = "item"
META: Final = ("_url", "_fetched_at", "_handler", "_version", "_id")  # the fields that swath adds to each item
MAX_DEPTH = 100  # levels of lists and mappings in an item
_to_json = json.JSONEncoder(ensure_ascii=False, allow_nan=False, separators=(",", ":")).encode
_KIND = re.compile(r"[A-Za-z][A-Za-z0-9_]{0,59}")


class ItemRecord(dict[str, Any]):
    """An extracted item as it is written: its fields as JSON has them, and those that swath adds."""

    __slots__ = ("kind",)

    def __init__(self, fields: Mapping[str, Any], kind: str) -> None:
        super().__init__(fields)
        self.kind: Final = kind
        """The name of its class, or `item` for dicts."""


def parse_record(item: ItemLine) -> ItemRecord:
    return ItemRecord(json.loads(item.line), item.kind)


class _Dataclass(Protocol):
    __dataclass_fields__: ClassVar[dict[str, Any]]


class _PydanticModel(Protocol):
    def model_dump(self) -> dict[str, Any]: ...


class _MsgspecStruct(Protocol):
    __struct_fields__: ClassVar[tuple[str, ...]]


ItemLike = Mapping[str, Any] | _Dataclass | _PydanticModel | _MsgspecStruct


def is_item(value: object) -> bool:
    """Return whether a value is of one of the types that an item may have."""
    return isinstance(value, Mapping) or (not isinstance(value, type) and _find_class(value) is not None)


def format_item(value: object, meta: Mapping[str, Any]) -> ItemLine:
    """Return the line of an item. Raise InvalidYield if it is not an item, or cannot be written as JSON."""
    kind = find_kind(value)
    fields = simplify(value, _name(value))
    taken = [name for name in META if name in fields]
    if taken:
        raise InvalidYield(f"{_name(value)} has a field {taken[0]}, which swath adds to each item: rename it")
    try:
        return ItemLine(kind, _to_json({**fields, **meta}).encode() + b"\n")
    except UnicodeEncodeError:
        raise InvalidYield(f"{_name(value)} has text that is not valid Unicode: replace the surrogates in it") from None


def simplify(value: object, name: str) -> Any:
    """Return a value as JSON has it. Raise InvalidYield, with its name, if that is not possible."""
    try:
        return _simplify(value, 0)
    except InvalidYield as error:
        raise InvalidYield(f"{name}{error}") from None


def find_kind(value: object) -> str:
    """Return the name of the output for an item. Raise InvalidYield if it is not an item."""
    if isinstance(value, Mapping):
        return DICT_KIND
    found = None if isinstance(value, type) else _find_class(value)
    if found is None:
        raise InvalidYield(describe_wrong_value(value))
    if not _KIND.fullmatch(found.__name__):
        raise InvalidYield(
            f"the class {found.__name__!r} cannot name a file: use ASCII letters, digits and _, at most 60"
        )
    return found.__name__


def describe_wrong_value(value: object) -> str:
    """Return the message for a value that a handler cannot yield."""
    what = (
        f"the class {value.__name__}" if isinstance(value, type) else f"{_show(value)} of type {type(value).__name__}"
    )
    return f"a handler yielded {what}: yield dicts, dataclasses, pydantic or msgspec models, Follow or Request"


def _find_class(value: object) -> type | None:
    found = type(value)
    if dataclasses.is_dataclass(found) or hasattr(found, "model_dump") or hasattr(found, "__struct_fields__"):
        return found
    return None


def _list_fields(value: object) -> dict[str, Any] | None:
    """Return the fields of a dataclass or model; None if it is something else."""
    if isinstance(value, type):
        return None
    kind = type(value)
    if dataclasses.is_dataclass(kind):
        return {field.name: getattr(value, field.name) for field in dataclasses.fields(kind)}
    if hasattr(kind, "model_dump"):
        dumped: dict[str, Any] = value.model_dump(mode="json")  # type: ignore[attr-defined]
        return dumped
    if hasattr(kind, "__struct_fields__"):
        return {name: getattr(value, name) for name in kind.__struct_fields__}
    return None


def _simplify(value: object, depth: int) -> Any:
    """Return a value as JSON has it. The message of an InvalidYield begins with where in the value the problem is."""
    if depth > MAX_DEPTH:
        raise InvalidYield(f" is nested deeper than {MAX_DEPTH} levels: flatten it")
    match value:
        case None | bool():
            return value
        case enum.Enum():
            return _simplify(value.value, depth + 1)
        case str():
            return str(value)
        case int():
            return int(value)
        case float():
            if value != value or value in (float("inf"), float("-inf")):
                raise InvalidYield(f" is {value}, which JSON does not have: use None")
            return float(value)
        case datetime() | date() | time():
            return value.isoformat()
        case Decimal() | UUID() | PurePath():
            return str(value)
        case Mapping():
            return {_check_name(name): _simplify_part("[{!r}]", name, one, depth) for name, one in value.items()}
        case list() | tuple():
            return [_simplify_part("[{}]", number, one, depth) for number, one in enumerate(value)]
    fields = _list_fields(value)
    if fields is None:
        hint = ": decode it to text" if isinstance(value, bytes | bytearray) else ""
        hint = ": use a list" if isinstance(value, set | frozenset) else hint
        raise InvalidYield(f" is {_show(value)} of type {type(value).__name__}, which cannot be written as JSON{hint}")
    return {name: _simplify_part(".{}", name, one, depth) for name, one in fields.items()}


def _simplify_part(place: str, key: object, value: object, depth: int) -> Any:
    """Simplify a part of a value. `place` says how a message writes the key of this part."""
    if value is None or type(value) in (str, int, bool):
        return value
    try:
        return _simplify(value, depth + 1)
    except InvalidYield as error:
        raise InvalidYield(f"{place.format(key)}{error}") from None


def _check_name(name: object) -> str:
    if not isinstance(name, str):
        raise InvalidYield(f" has the key {_show(name)} of type {type(name).__name__}: use a str")
    return name


def _name(value: object) -> str:
    return DICT_KIND if isinstance(value, Mapping) else type(value).__name__


def _show(value: object) -> str:
    try:
        return f"{value!r:.80}"
    except Exception:  # noqa: BLE001  the user's class may have a broken __repr__
        return "a value"
