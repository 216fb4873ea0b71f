"""The memory and the time of one page are bounded, whatever its bytes are."""

import json
import os
import re
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import swath
from swath.crawl.page_processor import MAX_EXPANSION, PARSERS
from swath.crawl.parse.page import MEMORY_CONSTANT, MEMORY_FACTOR
from tests.crawl.page_bytes import PATTERNS

SOAK = os.environ.get("SWATH_SOAK") == "1"
SEED = int(os.environ.get("SWATH_SEED", "4"))
SIZE = 800_000 if SOAK else 400_000
MIXES = 60 if SOAK else 12
LARGE = 16_000_000
# Patterns that are parsed quickly, and whose memory grew most before it was bounded.
GROWING = [
    *(f"html {piece!a}" for piece in ("\0", "&#", "x", "<a href='", "\U0001f600")),
    "html: wide text",
    "html: wide value",
    "bytes that are not UTF-8",
    "utf-16, half a surrogate",
    "iso-2022-jp, no escapes",
    "big5",
    "feed: long base",
]


def run(size: int, names: Sequence[str]) -> list[dict[str, Any]]:
    command = [sys.executable, "-m", "tests.crawl.page_bytes", str(size), *names]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    results = [json.loads(line) for line in done.stdout.splitlines()]
    assert [result["name"] for result in results] == list(names)
    return results


def check_memory(results: Sequence[dict[str, Any]], size: int) -> None:
    for result in results:
        assert result["memory"] <= MEMORY_FACTOR * size + MEMORY_CONSTANT, result


def test_the_memory_of_a_page_is_bounded_by_its_size() -> None:
    check_memory(run(LARGE, GROWING), LARGE)


def test_no_bytes_take_more_than_linear_time_or_bounded_memory() -> None:
    print(f"SWATH_SEED={SEED} repeats this")
    names = [*PATTERNS, *(f"mix {SEED} {number}" for number in range(MIXES))]
    results = run(SIZE, names)
    check_memory(results, SIZE)
    slow = [result["name"] for result in results if not _is_linear(result)]
    for _ in range(2):  # other processes may have disturbed the caches
        slow = [result["name"] for result in run(SIZE, slow) if not _is_linear(result)] if slow else []
    assert slow == []


def _is_linear(result: dict[str, Any]) -> bool:
    """Return whether twice as many bytes took less than four times as long, which is what quadratic time takes."""
    half, whole = result["seconds"]
    return bool(whole < 3.3 * half + 0.03)


def test_the_documented_bounds_are_those_that_are_tested() -> None:
    text = (Path(swath.__file__).parents[2] / "docs" / "crawl.md").read_text()
    found = re.search(r"takes at most ([0-9]+) times `--max-size` and ([0-9]+) MB", text)
    assert found is not None
    assert int(found[1]) == MEMORY_FACTOR * MAX_EXPANSION
    assert int(found[2]) * 1_000_000 == MEMORY_CONSTANT
    assert PARSERS == 2
    assert "parses two large pages at a time" in text
