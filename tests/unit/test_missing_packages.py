"""Without the packages of an extra, whatever needs them says which extra to install."""

import asyncio
import re
import sys
from collections.abc import Callable
from io import BytesIO
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

import swath.crawl
from swath import MissingExtra
from swath.cli.app import load_commands
from swath.cli.export import _write_parquet as write_pages
from swath.cli.item_export import write_items
from swath.scan import parquet_output
from swath.scan.sources.filesystems import open_filesystem
from swath.scan.sources.streams import open_zstd


def block(monkeypatch: pytest.MonkeyPatch, *names: str) -> None:
    """Make modules impossible to import, those that are loaded, too."""
    for name in names:
        monkeypatch.setitem(sys.modules, name, None)


def forget(monkeypatch: pytest.MonkeyPatch, prefix: str) -> None:
    for name in [name for name in sys.modules if name.startswith(prefix)]:
        monkeypatch.delitem(sys.modules, name)


@pytest.mark.parametrize("name", ["Crawler", "Page", "Selection"])
def test_the_api_of_the_crawler(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    forget(monkeypatch, "swath.crawl.handlers.")
    block(monkeypatch, "selectolax.lexbor")
    with pytest.raises(MissingExtra, match=rf"^swath.crawl.{name} needs more packages: pip install 'swath\[crawl\]'$"):
        getattr(swath.crawl, name)


def test_a_module_of_swath_that_is_not_there_is_no_missing_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    forget(monkeypatch, "swath.crawl.handlers.")
    block(monkeypatch, "swath.crawl.handlers.page")
    with pytest.raises(ModuleNotFoundError, match=r"swath\.crawl\.handlers\.page"):
        _ = swath.crawl.Page
    with pytest.raises(AttributeError, match="has no attribute 'Spider'"):
        _ = swath.crawl.Spider


@pytest.mark.parametrize(
    ("module", "arguments", "extra"),
    [
        ("swath.cli.backfill_command", ("backfill", "--db", "sqlite:///x.db", "--table", "t"), "backfill"),
        ("swath.cli.crawl_command", ("crawl", "https://a.example/"), "crawl"),
        ("uvloop", ("crawl", "https://a.example/"), "crawl"),
        ("swath.crawl.archive", ("export", "pages.csv", "--out", "."), "crawl"),
        ("swath.cli.item_export", ("export", "--items", "x.csv"), "crawl"),
        ("swath.cli.extract_command", ("extract",), "crawl"),
        ("swath.cli.scan_command", ("scan", "--source", "x.jsonl", "--check", "a:b"), "scan"),
        ("swath.cli.show_command", ("show", "https://a.example/"), "crawl"),
    ],
    ids=lambda value: value if isinstance(value, str) and "." in value else None,
)  # fmt: skip
def test_a_command(
    module: str, arguments: tuple[str, ...], extra: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "crawl.json").write_text("{}")
    (tmp_path / "frontier.db").touch()
    command = load_commands()
    block(monkeypatch, module)
    done = CliRunner().invoke(command, arguments)
    assert done.exit_code != 0
    assert f"needs more packages: pip install 'swath[{extra}]'" in " ".join(done.output.split())


PARQUET = "Parquet needs pyarrow: pip install 'swath[parquet]'"


def export_items() -> None:
    write_items({}, Path("x.parquet"))


@pytest.mark.parametrize(
    ("module", "call", "message"),
    [
        ("pyarrow", parquet_output.import_pyarrow, PARQUET),
        ("pyarrow", export_items, PARQUET),
        ("pyarrow", lambda: write_pages(iter(()), "x.parquet"), PARQUET),
        ("fsspec", lambda: open_filesystem("s3://bucket/x"), "s3://bucket/x needs fsspec: pip install 'swath[scan]'"),
        ("zstandard", lambda: open_zstd(BytesIO()), "reading .zst files needs zstandard: pip install 'swath[scan]'"),
    ],
)  # fmt: skip
def test_a_format(
    module: str, call: Callable[[], Any], message: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.chdir(tmp_path)
    block(monkeypatch, module)
    with pytest.raises(MissingExtra, match=f"^{re.escape(message)}$"):
        call()
    assert list(tmp_path.iterdir()) == []


def test_tables_of_postgresql(monkeypatch: pytest.MonkeyPatch) -> None:
    from swath.tables.open import open_table

    block(monkeypatch, "swath.tables.postgres")
    with pytest.raises(MissingExtra, match=r"^PostgreSQL needs psycopg: pip install 'swath\[postgres\]'$"):
        asyncio.run(open_table("postgresql://nobody@nowhere/nothing", "t"))
