"""`swath crawl --run` and `crawler.run()` as a user runs them, and the files that --items writes."""

import csv
import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from pyarrow import parquet

from swath.cli.export import Selection, _export, _export_items
from swath.cli.item_export import export_items, prepare_item_file
from swath.core.errors import InvalidSetting, UsageError
from swath.crawl import Crawler, Page
from swath.crawl.archive.output import CrawlOutput
from swath.crawl.archive.record import Capture, ItemLine
from swath.crawl.handlers.code import load_code
from swath.crawl.handlers.script import run_script
from swath.crawl.settings import CrawlSettings
from swath.testing.web import Web, WebProcess, spawn
from tests.crawl.driving import Ran, crawl_words, environment
from tests.crawl.handlers import books
from tests.small_disk import mount_small_disk

WEB = Web(seed=3, hosts=2, pages=30, faults=False, sitemaps=False)
SPIDER = """
from dataclasses import dataclass
from swath.crawl import Crawler

@dataclass
class Doc:
    url: str
    links: int

crawler = Crawler(*SEEDS, delay=0.0, scope="domain", allow_private=True)

@crawler.default()
def doc(page):
    yield Doc(page.url, len(page.css("a")))
    yield page.follow("a:not([rel~=nofollow])")

def bare(page):
    return [{"url": page.url}]

def make():
    hidden = Crawler(*SEEDS, delay=0.0, scope="domain", allow_private=True)
    hidden.default()(doc)
    return hidden

broken = Crawler(*[*SEEDS][:1], delay=0.0, allow_private=True, max_pages=1)

@broken.default()
def fails(page):
    page.css("h9").must_text()

if __name__ == "__main__":
    raise SystemExit(crawler.run())
"""


@pytest.fixture(scope="module")
def spawned(tmp_path_factory: pytest.TempPathFactory) -> Iterator[WebProcess]:
    with spawn(WEB, log=tmp_path_factory.mktemp("web") / "requests.jsonl") as spawned:
        yield spawned


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "spider.py").write_text(SPIDER.replace("*SEEDS", ", ".join(map(repr, WEB.seeds))))
    return tmp_path


def run(folder: Path, *words: str) -> Ran:
    command = [sys.executable, *words]
    ran = subprocess.run(
        command, cwd=folder, capture_output=True, text=True, timeout=100, check=False, env=environment()
    )
    return Ran(ran.returncode, ran.stdout, ran.stderr)


def read_lines(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text().splitlines()]


def get_pages(spawned: WebProcess) -> set[str]:
    return {url for url in spawned.web.urls_to_archive() if not url.endswith("/robots.txt")}


def test_a_crawl_with_handlers_in_two_processes(spawned: WebProcess, database: str, folder: Path) -> None:
    store = f"{database}&schema=crawl" if "?" in database else f"{database}?schema=crawl"
    words = crawl_words(spawned, folder / "out", "--run", "spider:crawler", "--store", store, "--processes", "2")
    ran = run(folder, "-m", "swath", *words, "--items", "docs.jsonl")
    assert ran.code == 0, ran.err
    docs = read_lines(folder / "docs.jsonl")
    assert {doc["url"] for doc in docs} == get_pages(spawned)
    assert len({doc["_id"] for doc in docs}) == len(docs) == len(get_pages(spawned))
    assert ran.summary["items"] == {"Doc": len(docs)}
    assert ran.summary["item_files"] == {"Doc": "docs.jsonl"}
    again = run(folder, "-m", "swath", "crawl", "--out", "out", "--store", store)
    assert (again.code, again.err) == (2, "swath: the crawl in out has handlers: give --run spider:crawler\n")


def test_a_script_runs_its_own_crawl(spawned: WebProcess, folder: Path) -> None:
    options = ("--connect-to", spawned.connect_to, "--out", "out")
    ran = run(folder, "spider.py", *options, "--items", "docs.csv", "--max-pages", "5")
    assert ran.code == 1, ran.err
    resumed = run(folder, "-m", "spider", *options, "--items", "docs.csv", "--processes", "2")
    assert resumed.code == 0, resumed.err
    with (folder / "docs.csv").open() as file:
        docs = list(csv.DictReader(file))
    assert sorted(doc["url"] for doc in docs) == sorted(get_pages(spawned))
    assert [*docs[0]] == ["url", "links", "_url", "_fetched_at", "_handler", "_version", "_id"]


@pytest.mark.parametrize("is_archived", [True, False])
def test_a_crawl_whose_handlers_failed_names_the_command_that_repairs_it(
    spawned: WebProcess, folder: Path, is_archived: bool
) -> None:
    words = ["crawl", "--run", "spider:broken", "--connect-to", spawned.connect_to, "--out", "out"]
    ran = run(folder, "-m", "swath", *words, *([] if is_archived else ["--no-warc"]))
    assert ran.code == 1, ran
    commands = [line.split("\t")[1].split() for line in ran.out.splitlines() if line.startswith("next\t")]
    repairs = [command for command in commands if "extract" in command]
    if not is_archived:
        assert repairs == []
        return
    assert repairs == [["swath", "extract", "--run", "spider:broken", "--failed", "--out", "out"]]
    spider = folder / "spider.py"
    # Of another length: Python takes a compiled module for the present one if the second and the length are the same.
    spider.write_text(spider.read_text().replace('page.css("h9").must_text()', "return [{'address': page.url}]"))
    ran = run(folder, "-m", "swath", *repairs[0][1:], "--items", "items.csv")
    assert (ran.code, ran.out) == (0, "repaired\t1\nitems\t1\nitem file\titems.csv, 1 item\n")


def test_flags_come_before_the_crawler_and_the_crawler_before_saved_settings(spawned: WebProcess, folder: Path) -> None:
    options = (
        "-m",
        "swath",
        "crawl",
        "--run",
        "spider:crawler",
        "--connect-to",
        spawned.connect_to,
        "--max-pages",
        "1",
    )
    run(folder, *options, "--delay", "0.01", "--scope", "host", "--out", "out")
    saved = json.loads((folder / "out/crawl.json").read_text())
    assert (saved["delay"], saved["scope"], saved["allow_private"]) == (0.01, "host", True)
    run(folder, *options, "--out", "out")
    saved = json.loads((folder / "out/crawl.json").read_text())
    assert (saved["delay"], saved["scope"]) == (0.0, "domain")


def test_mistakes_are_found_before_anything_is_created(folder: Path) -> None:
    def refuse(*words: str) -> str:
        ran = run(folder, "-m", "swath", "crawl", "--out", "out", *words)
        assert (ran.code, ran.out) == (2, "")
        assert not (folder / "out").exists()
        return ran.err

    (folder / "wrong.py").write_text("def f(page):\n    page.css('a[')\n")
    assert "'a[' is not a valid CSS selector" in refuse("--run", "wrong:f", "http://a.example")


MISTAKES = """
from swath.crawl import Crawler
crawler = Crawler()
@crawler.default()
"""


@pytest.mark.parametrize(
    ("code", "message"),
    [
        ("def f(page, x): ...", "--run mistaken:f: handler f (FILE:4): its arguments are (page, x), but a handler"),
        ("def f(page):\n    page.css('a[')", "--run mistaken:f: handler f (FILE:6): 'a[' is not a valid CSS selector"),
        ("def f(page): ...\ncrawler.handler(3)", "--run mistaken:f: @crawler.handler takes a pattern: write "),
        ("def f(page): ...\ncrawler.handler('(')", "--run mistaken:f: the pattern '(' is not a regular expression: "),
    ],
)
def test_a_mistake_in_a_crawler_is_reported_without_the_import(
    code: str, message: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "mistaken.py"
    file.write_text(MISTAKES + code)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [*sys.path])
    with pytest.raises(UsageError) as raised:
        load_code("mistaken:f")
    assert str(raised.value).startswith(message.replace("FILE", str(file)))
    assert str(raised.value).count(f"({file}:") == 1


def test_items_need_handlers_and_a_format() -> None:
    with pytest.raises(InvalidSetting, match="only a crawl with --run or --select has items"):
        CrawlSettings(items="x.csv")
    with pytest.raises(InvalidSetting, match=r"the name must end in \.jsonl, \.csv, \.parquet"):
        CrawlSettings(items="x.txt", run="spider:bare")


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("books", "--run 'books': write module:name, such as --run books:crawler"),
        ("tests.crawl.handlers.nothing:x", r"no module named 'tests\.crawl\.handlers\.nothing'"),
        ("tests.crawl.handlers.books:craler", "has no attribute 'craler'; did you mean crawler"),
        ("tests.crawl.handlers.books:Book", "is of type type: name a Crawler or a function"),
        ("tests.crawl.handlers.books:__doc__", "is of type str: name a Crawler or a function"),
    ],
)
def test_what_run_names_must_be_a_crawler(name: str, message: str) -> None:
    with pytest.raises(UsageError, match=message):
        load_code(name)


def test_a_crawler_without_a_name_cannot_have_several_processes() -> None:
    hidden = Crawler()

    @hidden.default()
    def handler(page: Page) -> None: ...

    with pytest.raises(UsageError, match="needs a crawler at the top level of a module"):
        run_script(hidden, ["--processes", "2"])


def test_the_code_has_a_hash_of_its_module(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    before = load_code("tests.crawl.handlers.books:crawler")
    assert before.crawler is books.crawler
    copy = tmp_path / "books.py"
    copy.write_text("# changed")
    monkeypatch.setattr(books, "__file__", str(copy))
    assert load_code("tests.crawl.handlers.books:crawler").source_hash != before.source_hash


# the files that are exported


def make_items(folder: Path, *items: tuple[str, dict[str, Any]]) -> dict[str, int]:
    output = CrawlOutput(folder, unique="x~0", warc_size=None, about={})
    output.restore({})
    lines = [ItemLine(kind, json.dumps(fields).encode() + b"\n") for kind, fields in items]
    (first,) = output.write([[[Capture({"url": "x"}, None, lines[:1])]]])
    output.keep()
    (second,) = output.write([[[Capture({"url": "y"}, None, lines[1:])]]])
    output.keep()
    output.write([[[Capture({"url": "z"}, None, [ItemLine(items[0][0], b'{"not": "settled"}\n')])]]])
    output.close()
    (folder / "archive-name").write_text("x\n")
    return {move.name: move.new for move in [*first, *second]}


ITEMS: list[tuple[str, dict[str, Any]]] = [
    ("Book", {"title": "=1+1", "n": 1, "x": 1, "parts": [1, {"a": None}], "_url": "u"}),
    ("Book", {"title": "ü\n", "n": 2.5, "x": "text", "big": 2**70, "ok": True, "_url": "v", "_id": "i"}),
]


def test_json_lines_are_the_lines_as_they_were_settled(tmp_path: Path) -> None:
    committed = make_items(tmp_path, *ITEMS)
    (exported,) = export_items([(tmp_path, committed)], tmp_path / "x.jsonl")
    assert exported == ("Book", tmp_path / "x.jsonl", 2)
    assert read_lines(tmp_path / "x.jsonl") == [fields for _, fields in ITEMS]


def test_csv_has_the_fields_of_all_items(tmp_path: Path) -> None:
    export_items([(tmp_path, make_items(tmp_path, *ITEMS))], tmp_path / "x.csv")
    with (tmp_path / "x.csv").open(newline="") as file:
        rows = list(csv.reader(file))
    assert rows[0] == ["title", "n", "x", "parts", "big", "ok", "_url", "_fetched_at", "_handler", "_version", "_id"]
    assert rows[1] == ["'=1+1", "1", "1", '[1, {"a": null}]', "", "", "u", "", "", "", ""]
    assert rows[2] == ["ü\n", "2.5", "text", "", str(2**70), "True", "v", "", "", "", "i"]


def test_parquet_has_types(tmp_path: Path) -> None:
    export_items([(tmp_path, make_items(tmp_path, *ITEMS))], tmp_path / "x.parquet")
    table = parquet.read_table(tmp_path / "x.parquet")
    types = {field.name: str(field.type) for field in table.schema}
    assert (types["title"], types["n"], types["ok"]) == ("string", "double", "bool")
    assert (types["x"], types["parts"], types["big"]) == ("string", "string", "string")
    first, second = table.to_pylist()
    assert (first["n"], first["x"], first["parts"], first["big"]) == (1.0, "1", '[1, {"a": null}]', None)
    assert (second["x"], second["big"], second["ok"]) == ('"text"', str(2**70), True)


@pytest.mark.parametrize("suffix", ["jsonl", "csv", "parquet"])
def test_each_kind_has_a_file(suffix: str, tmp_path: Path) -> None:
    committed = make_items(tmp_path, ("Book", {"a": 1}), ("Author", {"b": 1}), ("Book", {"a": 2}))
    (tmp_path / f"x.{suffix}").write_text("of an earlier run with one kind")
    exported = export_items([(tmp_path, committed)], tmp_path / f"x.{suffix}")
    assert [(one.kind, one.path.name, one.items) for one in exported] == [
        ("Author", f"x-Author.{suffix}", 1), ("Book", f"x-Book.{suffix}", 2),
    ]  # fmt: skip
    assert not (tmp_path / f"x.{suffix}").exists()


def test_the_items_of_several_machines_are_joined(spawned: WebProcess, database: str, folder: Path) -> None:
    store = f"{database}&schema=crawl" if "?" in database else f"{database}?schema=crawl"
    for out, more in (("here", ("--max-pages", "5")), ("there", ())):
        words = crawl_words(spawned, folder / out, "--run", "spider:crawler", "--store", store, *more)
        run(folder, "-m", "swath", *words)
    ran = run(folder, "-m", "swath", "export", "--items", "all.jsonl", "--out", "here", "--out", "there")
    assert (ran.code, ran.out) == (0, f"all.jsonl\t{len(get_pages(spawned))}\n"), ran.err
    docs = read_lines(folder / "all.jsonl")
    assert sorted(doc["url"] for doc in docs) == sorted(get_pages(spawned))


@pytest.mark.parametrize(
    ("outs", "file", "items", "message"),
    [
        (["here"], None, True, r"--items writes a file whose name ends in \.jsonl, \.csv or \.parquet"),
        (["here"], "x.txt", True, r"the name must end in \.jsonl, \.csv, \.parquet"),
        (["here", "there"], "x.csv", False, "pages are exported from one directory: give one --out, or --items"),
    ],
)
async def test_exports_that_cannot_be(outs: list[str], file: str | None, items: bool, message: str) -> None:
    export = _export_items if items else _export
    with pytest.raises(UsageError, match=message):
        await export(outs, None, file, None, Selection(), raw_csv=False)


async def test_latest_is_for_items() -> None:
    with pytest.raises(UsageError, match="--latest is for --items"):
        await _export(["crawl"], None, "x.csv", None, Selection(), raw_csv=False, latest=True)


@pytest.mark.parametrize("suffix", ["jsonl", "csv", "parquet"])
def test_a_crawl_without_items_has_an_empty_file(suffix: str, tmp_path: Path) -> None:
    (exported,) = export_items([(tmp_path, {})], tmp_path / f"x.{suffix}")
    assert exported.items == 0
    assert exported.path.exists()


def test_a_file_that_cannot_be_written_is_reported_and_the_old_one_kept(tmp_path: Path) -> None:
    committed = make_items(tmp_path, *ITEMS)
    (tmp_path / "x.jsonl").write_text("old")
    (tmp_path / "x.jsonl.new").mkdir()
    with pytest.raises((UsageError, OSError), match="directory"):
        export_items([(tmp_path, committed)], tmp_path / "x.jsonl")
    assert (tmp_path / "x.jsonl").read_text() == "old"


def test_a_file_that_cannot_be_written_is_refused_before_the_items_are_collected(tmp_path: Path) -> None:
    prepare_item_file(tmp_path / "new/folder/x.jsonl")
    assert (tmp_path / "new/folder").is_dir()
    (tmp_path / "x.csv").mkdir()
    with pytest.raises(UsageError, match=r"x\.csv is a directory: name a file"):
        prepare_item_file(tmp_path / "x.csv")
    (tmp_path / "file").touch()
    for file in ("file/x.csv", "file/more/x.csv"):
        with pytest.raises(UsageError, match=f"--items .*{file}.*ot a directory"):
            prepare_item_file(tmp_path / file)


@pytest.mark.parametrize("command", ["crawl", "export", "extract"])
def test_a_file_of_items_is_checked_at_the_start(command: str, folder: Path) -> None:
    words = {
        "crawl": ("crawl", "http://a.example", "--run", "spider:bare", "--items", "spider.py/x.csv"),
        "export": ("export", "--items", "spider.py/x.csv"),
        "extract": ("extract", "--run", "spider:bare", "--items", "spider.py/x.csv"),
    }[command]
    ran = run(folder, "-m", "swath", *words, "--out", "out")
    assert (ran.code, ran.out) == (2, "")
    assert ran.err == "swath: --items spider.py/x.csv: spider.py is not a directory\n"
    assert not (folder / "out").exists()


def test_items_on_a_full_disk_are_there_when_the_command_runs_again(spawned: WebProcess, folder: Path) -> None:
    with mount_small_disk(folder / "disk") as disk:
        file = disk.path / "items.jsonl"
        file.write_text("old")
        disk.fill()
        words = ["-m", "swath", *crawl_words(spawned, folder / "out", "--run", "spider:crawler", "--items", str(file))]
        ran = run(folder, *words)
        assert ran.code == 3, ran.err
        assert f"the file of items {file} cannot be written to: No space left on device. Make room" in ran.err
        assert file.read_text() == "old"
        assert sorted(path.name for path in disk.path.iterdir()) == ["ballast", "items.jsonl"]
        disk.clear()
        ran = run(folder, *words)
        assert ran.code == 0, ran.err
        assert len(file.read_text().splitlines()) == len(
            {page for page in WEB.urls_to_archive() if "robots" not in page}
        )
