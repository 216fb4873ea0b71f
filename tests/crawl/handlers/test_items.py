"""Items: what each type becomes as JSON, and what cannot be written."""

import enum
import json
from collections import OrderedDict
from dataclasses import dataclass, field
from datetime import UTC, date, datetime, time
from decimal import Decimal
from pathlib import PurePosixPath
from typing import Any
from uuid import UUID

import msgspec
import pydantic
import pytest

from swath.crawl import InvalidYield
from swath.crawl.handlers.items import MAX_DEPTH, format_item, is_item


class Colour(enum.Enum):
    RED = "red"


@dataclass
class Part:
    name: str


@dataclass
class Book:
    title: str
    price: Decimal | None = None
    parts: list[Part] = field(default_factory=list)
    about: dict[str, Any] = field(default_factory=dict)


class Model(pydantic.BaseModel):
    title: str
    when: datetime


class Struct(msgspec.Struct):
    title: str
    parts: list[Part]


def written(value: object) -> tuple[str, dict[str, Any]]:
    kind, line = format_item(value, {"_id": "x-0"})
    assert line.endswith(b"\n")
    return kind, json.loads(line)


def test_every_type_of_item() -> None:
    moment = datetime(2030, 1, 2, tzinfo=UTC)
    assert written({"a": 1, "b": [None, 1.5, True]}) == ("item", {"a": 1, "b": [None, 1.5, True], "_id": "x-0"})
    assert written(OrderedDict(a=(1,))) == ("item", {"a": [1], "_id": "x-0"})
    book = Book("ü", Decimal("1.50"), [Part("x")], {"c": Colour.RED, "d": date(2030, 1, 2), "t": moment})
    assert written(book) == (
        "Book",
        {
            "title": "ü", "price": "1.50", "parts": [{"name": "x"}],
            "about": {"c": "red", "d": "2030-01-02", "t": "2030-01-02T00:00:00+00:00"}, "_id": "x-0",
        },
    )  # fmt: skip
    assert written(Model(title="a", when=moment)) == (
        "Model",
        {"title": "a", "when": "2030-01-02T00:00:00Z", "_id": "x-0"},
    )
    assert written(Struct("a", [Part("y")])) == ("Struct", {"title": "a", "parts": [{"name": "y"}], "_id": "x-0"})


def nest(depth: int) -> Any:
    value: Any = 1
    for _ in range(depth):
        value = [value]
    return value


@pytest.mark.parametrize(
    ("value", "message"),
    [
        (None, r"yielded None of type NoneType: yield dicts, dataclasses"),
        ("text", r"yielded 'text' of type str"),
        (Book, r"yielded the class Book"),
        ({"a": object()}, r"item\['a'\] is <object.*> of type object, which cannot be written as JSON"),
        (Book("x", about={"y": [b"z"]}), r"Book.about\['y'\]\[0\] is b'z' of type bytes.*: decode it to text"),
        ({"a": {1, 2}}, r"of type set, .*: use a list"),
        ({"a": float("nan")}, r"item\['a'\] is nan, which JSON does not have: use None"),
        ({1: 2}, r"item has the key 1 of type int: use a str"),
        ({"_id": 1}, r"item has a field _id, which swath adds to each item: rename it"),
        ({"a": nest(200)}, r"nested deeper than 100 levels"),
        ({"a": "\ud800"}, r"text that is not valid Unicode"),
        (type("Bü", (), {"__dataclass_fields__": {}})(), r"the class 'Bü' cannot name a file"),
    ],
)
def test_what_is_not_an_item(value: object, message: str) -> None:
    with pytest.raises(InvalidYield, match=message):
        format_item(value, {})


def test_a_value_whose_repr_fails() -> None:
    class Broken:
        def __repr__(self) -> str:
            raise RuntimeError

    with pytest.raises(InvalidYield, match="a value of type Broken"):
        format_item({"a": Broken()}, {})


def test_the_depth_of_an_item_and_the_name_of_its_class_have_limits() -> None:
    assert written({"a": nest(MAX_DEPTH)})[1]["a"] == nest(100)
    with pytest.raises(InvalidYield, match="nested deeper than 100 levels"):
        format_item({"a": nest(MAX_DEPTH + 1)}, {})
    longest = make_class("B" + "x" * 59)
    assert format_item(longest(), {}).kind == longest.__name__
    with pytest.raises(InvalidYield, match="cannot name a file"):
        format_item(make_class("B" + "x" * 60)(), {})


def make_class(name: str) -> type:
    return dataclass(type(name, (), {}))


def test_types_that_json_does_not_have() -> None:
    class Number(int): ...

    class Share(float): ...

    class Text(str): ...

    class Level(enum.IntEnum):
        HIGH = 3

    some = {"n": Number(1), "s": Share(0.5), "t": Text("x"), "e": Level.HIGH, "time": time(1, 2)}
    others = {"id": UUID(int=1), "path": PurePosixPath("a/b"), "set": [()]}
    assert written({**some, **others})[1] == {
        "n": 1, "s": 0.5, "t": "x", "e": 3, "time": "01:02:00",
        "id": "00000000-0000-0000-0000-000000000001", "path": "a/b", "set": [[]], "_id": "x-0",
    }  # fmt: skip
    for value, message in [
        (float("-inf"), "is -inf, which JSON does not have"), (frozenset([1]), "use a list"),
        (bytearray(b"x"), "decode it to text"), (Part, "of type type, which cannot be written as JSON$"),
    ]:  # fmt: skip
        with pytest.raises(InvalidYield, match=message):
            format_item({"a": value}, {})
    values: dict[str, Any] = {
        "a dict": {},
        "an item": Part("x"),
        "a struct": Struct("a", []),
        "a class": Part,
        "a number": 3,
    }
    assert [name for name, one in values.items() if is_item(one)] == ["a dict", "an item", "a struct"]
