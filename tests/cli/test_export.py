"""`swath export`: which lines of the page list it writes, and how."""

import csv
import io
import json
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from swath.cli.export import escape_formula
from tests.cli.conftest import Result, run_swath

FORMULA = "=HYPERLINK(A1)"


class Page(BaseHTTPRequestHandler):
    """A page whose title looks like a formula."""

    def do_GET(self) -> None:
        body = f"<!doctype html><title>{FORMULA}</title>".encode()
        self.send_response(200)
        self.send_header("content-type", "text/html")
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)


@contextmanager
def serve(port: int) -> Iterator[None]:
    with ThreadingHTTPServer(("127.0.0.1", port), Page) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        try:
            yield
        finally:
            server.shutdown()


@pytest.fixture
def port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as reserved:
        return int(reserved.getsockname()[1])


def crawl(out: Path, *args: str) -> Result:
    common = ("--allow-private", "--no-robots", "--delay", "0s", "--retries", "0", "--quiet")
    return run_swath("crawl", *args, *common, "--out", str(out))


def export(out: Path, *args: str) -> list[dict[str, Any]]:
    return run_swath("export", "--out", str(out), *args).json_lines()


@pytest.fixture
def retried(tmp_path: Path, port: int) -> Path:
    """A crawl with a page that failed and was fetched in the next run, one that failed, and one that was refused."""
    good, bad = f"http://127.0.0.1:{port}/", "http://127.0.0.2:9000/"
    out = tmp_path / "out"
    assert crawl(out, good, bad, "--connect-to", "127.0.0.2:9000:127.0.0.1:1").code == 1
    assert run_swath("dead", "retry", "--all", "--store", f"sqlite:///{out}/frontier.db").code == 0
    with serve(port):
        again = ("--connect-to", "127.0.0.2:9000:127.0.0.1:1", "--max-pages-per-host", "1")
        assert crawl(out, f"{good}second", *again).code == 1
    return out


def test_export_writes_the_last_line_of_each_url(retried: Path, port: int) -> None:
    pages = {page["url"]: page for page in export(retried)}
    good = f"http://127.0.0.1:{port}/"
    assert len(pages) == 3
    assert sorted(pages[good].get("status", 0) for good in (good, f"{good}second")) == [0, 200]  # one of them
    assert pages["http://127.0.0.2:9000/"]["failed"]
    assert {*export(retried, "--failed")[0]} >= {"failed", "attempts"}
    assert [page["url"] for page in export(retried, "--failed")] == ["http://127.0.0.2:9000/"]
    assert [page["excluded"] for page in export(retried, "--excluded")] == ["host-budget"]
    assert len(export(retried, "--failed", "--excluded")) == 2
    lines = export(retried, "--all")
    assert [line["url"] for line in lines].count("http://127.0.0.2:9000/") == 2
    assert len(lines) == 5
    assert len(export(retried, "--all", "--failed")) == 3


def test_csv_escapes_texts_that_begin_like_a_formula(retried: Path) -> None:
    def titles(*options: str) -> set[str]:
        text = run_swath("export", "--format", "csv", *options, "--out", str(retried)).out
        return {row["title"] for row in csv.DictReader(io.StringIO(text))} - {""}

    assert titles() == {f"'{FORMULA}"}
    assert titles("--raw-csv") == {FORMULA}
    assert [page["title"] for page in export(retried) if "title" in page] == [FORMULA]


@pytest.mark.parametrize(
    ("cell", "written"),
    [
        ("=1+1", "'=1+1"),
        ("+1", "'+1"),
        ("-1", "'-1"),
        ("@SUM(A1)", "'@SUM(A1)"),
        ("\t=1", "'\t=1"),
        ("\r=1", "'\r=1"),
        ("\n=1", "'\n=1"),
        ("\uff1d1", "'\uff1d1"),
        ("a=1", "a=1"),
        ("", ""),
        (-1, -1),
        (-1.5, -1.5),
        (True, True),
        (None, None),
    ],
)
def test_only_texts_are_escaped(cell: object, written: object) -> None:
    assert escape_formula(cell) == written


def test_options_that_do_not_fit_the_format_are_refused(tmp_path: Path) -> None:
    for args, said in {
        ("pages.cdxj", "--failed"): "a CDXJ index has archived pages only",
        ("pages.jsonl", "--raw-csv"): "--raw-csv is for CSV, and the format is jsonl",
    }.items():
        refused = run_swath("export", *args, "--out", str(tmp_path))
        assert (refused.code, said in refused.err) == (2, True)


def test_parquet_has_the_last_lines_too(retried: Path, tmp_path: Path) -> None:
    from pyarrow import parquet

    file = tmp_path / "pages.parquet"
    assert run_swath("export", str(file), "--out", str(retried)).code == 0
    assert parquet.read_table(file).to_pylist() == [
        {**dict.fromkeys(parquet.read_schema(file).names), **page} for page in map(json.loads, _lines(retried))
    ]


def _lines(out: Path) -> list[str]:
    return run_swath("export", "--out", str(out)).out.splitlines()
