"""The columns of CSV and Parquet are those of the class of the items."""

import enum
from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import datetime
from decimal import Decimal
from pathlib import Path
from typing import Any, Literal

import msgspec
import pydantic
import pytest
from pyarrow import parquet

import swath
from swath.cli.item_export import export_items, read_export
from swath.crawl import Crawler, Page
from swath.crawl.handlers.columns import describe_columns
from tests.crawl.handlers.running import make_settings, run
from tests.crawl.handlers.test_command import make_items

A = "http://a.example"


class Colour(enum.Enum):
    RED = "red"


@dataclass
class Book:
    title: str
    stock: int | None
    price: float | None
    sold: bool | None = None
    parts: list[str] | None = None
    size: Literal["a", "b"] = "a"
    colour: Colour | None = None
    when: datetime | None = None
    cost: Decimal = Decimal(1)
    weight: int | float = 1
    anything: Any = None
    mixed: int | str | None = None
    unknown: "Missing" = None  # type: ignore[name-defined]  # noqa: F821


@dataclass
class Plain:
    last: str
    stock: int | None = None
    price: float | None = None
    sold: bool | None = None
    parts: list[str] = field(default_factory=list)
    size: Literal["a", "b"] = "a"
    colour: Colour | None = None
    when: datetime | None = None
    cost: Decimal = Decimal(1)
    weight: int | float = 1
    anything: Any = None
    mixed: int | str | None = None


class Model(pydantic.BaseModel):
    title: str
    stock: int | None


class Struct(msgspec.Struct):
    title: str | None
    about: dict[str, int]


def test_columns_of_classes() -> None:
    assert describe_columns(Plain) == {
        "last": "str", "stock": "int", "price": "float", "sold": "bool", "parts": "json", "size": "str",
        "colour": "str", "when": "str", "cost": "str", "weight": "float", "anything": "any", "mixed": "any",
    }  # fmt: skip
    assert list(describe_columns(Book)) == [*(name for name in Book.__dataclass_fields__)]
    assert set(describe_columns(Book).values()) == {"any"}  # an annotation that cannot be evaluated
    assert describe_columns(Model) == {"title": "str", "stock": "int"}
    assert describe_columns(Struct) == {"title": "str", "about": "json"}


async def test_a_column_without_values_has_the_type_of_its_class(tmp_path: Path) -> None:
    crawler = Crawler(f"{A}/")

    @crawler.default()
    def plain(page: Page) -> Iterator[Plain]:
        yield Plain("x")

    out = tmp_path / "out"
    await run(crawler, {f"{A}/": "x"}, out)
    settings = make_settings(out)
    async with swath.open(settings.store_url) as frontier:
        committed, columns = await read_export(settings, frontier)
    export_items([(out, committed)], tmp_path / "x.parquet", columns=columns)
    types = {column.name: str(column.type) for column in parquet.read_schema(tmp_path / "x.parquet")}
    assert list(types)[:4] == ["last", "stock", "price", "sold"]
    assert (types["stock"], types["price"], types["sold"], types["parts"], types["weight"]) == (
        "int64", "double", "bool", "string", "double",
    )  # fmt: skip
    export_items([(out, committed)], tmp_path / "x.csv", columns=columns)
    assert (tmp_path / "x.csv").read_text().startswith("last,stock,price,sold,parts,size,")


@pytest.mark.parametrize("declared", ["int", "bool"])
def test_values_that_do_not_fit_the_class_decide(tmp_path: Path, declared: str) -> None:
    """The class has changed since some of the items were written."""
    items: list[tuple[str, dict[str, Any]]] = [("Book", {"old": 1, "n": "text"}), ("Book", {"n": "2"})]
    committed = make_items(tmp_path, *items)
    export_items([(tmp_path, committed)], tmp_path / "x.parquet", columns={"Book": {"new": "float", "n": declared}})
    table = parquet.read_table(tmp_path / "x.parquet")
    types = {column.name: str(column.type) for column in table.schema}
    assert list(types)[:3] == ["new", "n", "old"]
    assert (types["new"], types["n"], types["old"]) == ("double", "string", "int64")
    assert table.column("n").to_pylist() == ["text", "2"]
