"""The spider of the README and its commands, run over a shop of the demo web."""

import csv
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

from swath.testing.web import Web, list_books, spawn
from tests.crawl.driving import environment

README = (Path(__file__).parents[2] / "README.md").read_text()
WEB = Web(hosts=1, pages=1, faults=False, shops=1, books=21)


def list_commands() -> list[list[str]]:
    """Return the two ways to start the spider."""
    (shown,) = re.findall(r"^\$ (swath crawl --run books:crawler .*)$", README, re.MULTILINE)
    command, _, comment = shown.partition("#")
    assert "python books.py does the same" in comment
    return [["-m", *shlex.split(command)], ["books.py", *shlex.split(command)[4:]]]


@pytest.mark.parametrize("words", list_commands(), ids=["command", "script"])
def test_the_spider_finds_every_book_of_a_shop(words: list[str], tmp_path: Path) -> None:
    (spider,) = re.findall(r"^```python\n([^`]*?crawler\.run\(\)\)\n)```", README, re.MULTILINE)
    assert 'Crawler("https://books.example/", delay=1.0)' in spider
    (seed,) = WEB.shop_seeds
    text = spider.replace("https://books.example/", seed).replace("delay=1.0", "delay=0.0")
    (tmp_path / "books.py").write_text(text)
    with spawn(WEB) as served:
        done = subprocess.run(
            [sys.executable, *words, "--connect-to", served.connect_to, "--allow-private"],
            cwd=tmp_path, env=environment(), capture_output=True, text=True, timeout=100, check=False,
        )  # fmt: skip
    assert done.returncode == 0, done.stderr
    with (tmp_path / "books.csv").open(newline="") as lines:
        found = [(row["_url"], row["title"], row["price"]) for row in csv.DictReader(lines)]
    assert sorted(found) == sorted((book.url, book.title, book.price) for book in list_books(WEB))
