"""What the documentation shows is what happens."""

import ast
import asyncio
import re
import sqlite3
import subprocess
import sys
from contextlib import closing
from dataclasses import fields
from pathlib import Path

import pytest

import swath
from swath.crawl.settings import CrawlSettings
from swath.crawl.urls.scope import REASONS
from swath.crawl.urls.traps import TRAPS

ROOT = Path(__file__).parents[2]
PAGES = sorted([*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md")])
BLOCK = re.compile(r"^```python\n(.*?)^```", re.MULTILINE | re.DOTALL)
LINK = re.compile(r"\]\((?!https?:|mailto:|#)([^)#\s]+)")


def run(program: Path, folder: Path) -> str:
    command: list[str | Path] = [sys.executable, program]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_the_readme_example_covers_what_it_says(tmp_path: Path) -> None:
    (example,) = [text for text in BLOCK.findall((ROOT / "README.md").read_text()) if "import swath\n" in text]
    assert len(example.strip().splitlines()) <= 20
    (tmp_path / "example.py").write_text(example)
    out = run(tmp_path / "example.py", tmp_path)
    assert out.count("covering ") == 10 + 20 + 40
    assert "host3/page/1/2 was done" in out
    again = run(tmp_path / "example.py", tmp_path)
    assert "covering" not in again


def test_exactly_once_credits_each_account_once(tmp_path: Path) -> None:
    out = run(ROOT / "examples/exactly_once.py", tmp_path)
    assert out == "200 of 200 accounts were credited once; 200 credits in total\n"
    assert run(ROOT / "examples/exactly_once.py", tmp_path) == out


def test_ranges_adds_up_everything_once(tmp_path: Path) -> None:
    out = run(ROOT / "examples/ranges.py", tmp_path)
    assert f"the sum is {sum(range(1_000_000)):,};" in out
    checkpoint = re.search(r"the checkpoint is at ([\d,]+) of ([\d,]+)", out)
    assert checkpoint is not None
    assert checkpoint[1] == checkpoint[2]


def test_the_tutorial_shows_the_example() -> None:
    shown = BLOCK.findall((ROOT / "docs/tutorial.md").read_text())[0]
    program = (ROOT / "examples/tour.py").read_text()
    assert program.split('"""', 2)[2].strip() == shown.strip()


def test_the_output_in_the_how_to_holds_what_was_settled(tmp_path: Path) -> None:
    (shown,) = BLOCK.findall((ROOT / "docs/howto/output-files.md").read_text())
    (tmp_path / "lines.py").write_text(
        "import asyncio, os, swath\nfrom collections.abc import Mapping, Sequence\nfrom pathlib import Path\n"
        + shown
        + LINES
    )
    assert run(tmp_path / "lines.py", tmp_path) == "20 lines, 20 different\n"
    with (tmp_path / "lines.txt").open("a") as file:
        file.write("never settled")
    assert run(tmp_path / "lines.py", tmp_path) == "20 lines, 20 different\n"


LINES = """
async def main():
    async with swath.open("sqlite:///work.db") as frontier:
        await frontier.add([f"key {n}" for n in range(20)])
        lines = Lines(Path("lines.txt"))
        lines.restore(await frontier.outputs())
        await frontier.run(lambda item: done(item), output=lines)

async def done(item):
    return item.done(output=item.key)

asyncio.run(main())
found = Path("lines.txt").read_text().splitlines()
print(len(found), "lines,", len(set(found)), "different")
"""


def test_the_clock_in_the_how_to_makes_the_retry_due() -> None:
    (shown,) = BLOCK.findall((ROOT / "docs/howto/test-handlers.md").read_text())
    attempts: list[int] = []

    async def handler(item: swath.Item) -> swath.Outcome:
        attempts.append(item.attempts)
        return item.retry(after=30, reason="busy")

    program = compile(shown, "test-handlers.md", "exec", flags=ast.PyCF_ALLOW_TOP_LEVEL_AWAIT)
    asyncio.run(eval(program, {"swath": swath, "handler": handler}))
    assert attempts == [0, 1]


def test_the_counts_in_the_how_to_are_those_of_the_run(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    blocks = BLOCK.findall((ROOT / "docs/howto/observe.md").read_text())
    (shown,) = [block for block in blocks if "EventCounts" in block]
    program = compile(shown, "observe.md", "exec", flags=ast.PyCF_ALLOW_TOP_LEVEL_AWAIT)
    url = f"sqlite:///{tmp_path}/work.db"

    async def handler(item: swath.Item) -> swath.Outcome:
        return item.dead(reason="no: such thing") if item.key == "key 0" else item.done()

    async def main() -> None:
        async with swath.open(url) as frontier:
            await frontier.add(f"key {number}" for number in range(5))
        await eval(program, {"swath": swath, "handler": handler, "url": url})

    asyncio.run(main())
    assert re.fullmatch(r"4 \{'no': 1\} [1-9]\d*\n", capsys.readouterr().out)


def test_the_sink_in_the_how_to_writes_each_row_once(tmp_path: Path) -> None:
    shown = BLOCK.findall((ROOT / "docs/howto/exactly-once.md").read_text())[0]
    program = compile(shown, "exactly-once.md", "exec", flags=ast.PyCF_ALLOW_TOP_LEVEL_AWAIT)

    async def fetch_title(url: str) -> str:
        return f"title of {url}"

    async def main() -> None:
        async with swath.open(f"sqlite:///{tmp_path}/work.db") as frontier:
            with closing(sqlite3.connect(tmp_path / "work.db")) as connection:
                connection.execute("CREATE TABLE page (url TEXT, title TEXT)")
            await frontier.add(f"page {number}" for number in range(20))
            await eval(program, {"frontier": frontier, "fetch_title": fetch_title})

    asyncio.run(main())
    with closing(sqlite3.connect(tmp_path / "work.db")) as connection:
        rows = connection.execute("SELECT url, title FROM page").fetchall()
    assert sorted(rows) == sorted((f"page {number}", f"title of page {number}") for number in range(20))


def test_the_page_on_crawling_names_every_reason_and_trap() -> None:
    page = (ROOT / "docs/crawl.md").read_text()
    for name, meaning in {**REASONS, **TRAPS}.items():
        assert f"| `{name}` | {meaning}" in page


def test_the_page_on_crawling_names_every_flag() -> None:
    page = (ROOT / "docs/crawl.md").read_text()
    flags = {f"--{field.name.replace('_', '-')}" for field in fields(CrawlSettings)} - {"--verify", "--ca-file"}
    assert [flag for flag in sorted(flags) if flag not in page and flag.replace("--", "--no-") not in page] == []


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_python_on_a_page_is_python_and_links_lead_somewhere(page: Path) -> None:
    text = page.read_text()
    for block in BLOCK.findall(text):
        compile(block, str(page), "exec", flags=ast.PyCF_ALLOW_TOP_LEVEL_AWAIT)
    missing = [target for target in LINK.findall(text) if not (page.parent / target).exists()]
    assert missing == []
