"""Type checkers accept the spider of the README, and find the mistakes that its types exclude."""

import json
import re
import subprocess
import sys
from pathlib import Path

import pytest

import swath

ROOT = Path(__file__).parents[3]
SOURCE = Path(swath.__file__).parent
WRONG = """\
from collections.abc import AsyncIterator, Iterator
from dataclasses import dataclass

from swath.crawl import Crawler, Follow, Page, Request

crawler = Crawler("https://books.example/", delay=1.0)


@dataclass
class Book:
    title: str
    price: str | None


@crawler.handler(r"/catalogue/")
async def book(page: Page) -> AsyncIterator[Book]:
    yield Book(titel="x", price=None)  # wrong
    yield Book("x", price=5)  # wrong
    yield Book(page.css("h1").text(), None)  # wrong: it may be None
    yield Book(page.xpath("//h1").attr("id"), None)  # wrong: it may be None
    yield 5  # wrong


@crawler.default()
def listing(page: Page) -> Iterator[Follow | Request]:
    yield page.follow("a", to=5)  # wrong
    yield page.follow("a", priority="high")  # wrong
    yield page.follow(page.css("a").urls())  # wrong: Follow(urls)
    yield Follow(["/a"], to=book)
    yield Request("/b", any_host="yes")  # wrong
    page.css("h1").txt()  # wrong


@crawler.handler("/number", links="all")  # wrong
def number(page: Page) -> Iterator[Book]:
    return iter(())


@crawler.handler("/text")  # wrong: a number is not an item
def text(page: Page) -> Iterator[int]:
    yield 5


@crawler.handler("/page")  # wrong: it takes a page
def other(page: str) -> None: ...


crawler.check(Page.from_html("<h1>x", url="https://a.example/"), to=book).items
crawler.check("https://a.example/")  # wrong
"""


def read_spider() -> str:
    (spider,) = re.findall(r"^```python\n([^`]*?crawler\.run\(\)\)\n)```", (ROOT / "README.md").read_text(), re.M)
    return str(spider)


@pytest.fixture
def modules(tmp_path: Path) -> Path:
    (tmp_path / "books.py").write_text(read_spider())
    (tmp_path / "wrong.py").write_text(WRONG)
    return tmp_path


MISTAKES = {("wrong.py", number) for number, line in enumerate(WRONG.splitlines(), 1) if "# wrong" in line}


def run(*command: str, folder: Path) -> str:
    done = subprocess.run(
        [sys.executable, "-m", *command], cwd=folder, capture_output=True, text=True, timeout=110, check=False
    )
    assert done.returncode == 1, done.stdout + done.stderr
    return done.stdout


def test_mypy_accepts_the_spider_and_finds_mistakes(modules: Path) -> None:
    cache = ROOT / ".mypy_cache" / "spider"  # beside that of `make lint`, which has other options
    found = run("mypy", "--strict", "--cache-dir", str(cache), "books.py", "wrong.py", folder=modules)
    assert {(file, int(line)) for file, line in re.findall(r"^(\S+\.py):(\d+): error", found, re.M)} == MISTAKES, found


def test_pyright_accepts_the_spider_and_finds_mistakes(modules: Path) -> None:
    settings = {"typeCheckingMode": "strict", "reportUnusedExpression": False, "reportUnusedCoroutine": False}
    (modules / "pyrightconfig.json").write_text(json.dumps(settings))
    python = ("--pythonpath", sys.executable)
    found = json.loads(run("basedpyright", "--outputjson", *python, "books.py", "wrong.py", folder=modules))
    errors = [one for one in found["generalDiagnostics"] if one["severity"] == "error"]
    lines = {(Path(one["file"]).name, one["range"]["start"]["line"] + 1) for one in errors}
    assert lines == MISTAKES, [f"{one['range']['start']['line'] + 1}: {one['message']}" for one in errors]


def test_types_are_shipped() -> None:
    assert (SOURCE / "py.typed").exists()
