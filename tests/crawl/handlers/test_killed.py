"""INV-5 for items: every item is in the output exactly once per visit, through SIGKILL at seeded points."""

import asyncio
import json
import os
import random
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from swath.crawl.archive.item_files import list_kinds, read_item_lines
from swath.testing.web import DemoBook, Web, WebProcess, list_books, spawn
from tests.crawl.archives import archived_urls, check_records, check_warc_indexes
from tests.crawl.driving import crawl_words, environment
from tests.crawl.handlers.running import read_dead, read_frontier
from tests.crawl.killing import wait

SOAK = os.environ.get("SWATH_SOAK") == "1"
SEEDS = [int(os.environ["SWATH_SEED"])] if "SWATH_SEED" in os.environ else range(1, 11) if SOAK else [1]
EXPORTING = ("line", "export")
POINTS = ("handler", "write", "settled", *EXPORTING)  # in this order: only a complete crawl exports all of its items
POINTS_OF_STORE = {"sqlite": POINTS, "postgres": ("handler", "write", "settled")}  # with `make soak` all on both
PROCESSES = {"sqlite": 1, "postgres": 2}  # with `make soak` 1 to 4
KILLS = 12
KILLS_OF_EXPORT = 6 if SOAK else 2
OLD = b"an earlier export"
SPIDER = "tests.crawl.handlers.shop_spider"
WEB = Web(hosts=1, pages=1, faults=False, shops=3, books=21)
BOOKS = list(list_books(WEB))
SECONDS = 100.0


@pytest.fixture(scope="module")
def spawned(tmp_path_factory: pytest.TempPathFactory) -> Iterator[WebProcess]:
    with spawn(WEB, log=tmp_path_factory.mktemp("web") / "requests.jsonl") as spawned:
        yield spawned


def run(words: Sequence[str], *, kill: str = "", module: str = "swath") -> tuple[int, str]:
    """Run a command that kills itself at a point, in a process group of its own."""
    command = [sys.executable, "-m", module, *words]
    process = subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, start_new_session=True,
        env=environment(KILL=kill),
    )  # fmt: skip
    try:
        _, err = process.communicate(timeout=SECONDS)
    except BaseException:
        os.killpg(process.pid, signal.SIGKILL)
        process.communicate()
        raise
    return process.returncode, err


def _list_fields(book: DemoBook) -> dict[str, Any]:
    return {name: value for name, value in asdict(book).items() if name != "url"}


def list_exported(file: Path) -> list[Path]:
    return [file.with_name(f"{file.stem}-{kind}{file.suffix}") for kind in ("Book", "item")]


def check_items(exported: Path) -> None:
    books = {book.url: _list_fields(book) for book in BOOKS}
    details, others = ([json.loads(line) for line in path.read_text().splitlines()] for path in list_exported(exported))
    assert sorted(item["_url"] for item in details) == sorted(books)
    for item in details:
        expected = books[item["_url"]]
        assert {name: item[name] for name in expected} == expected
    ids = [item["_id"] for item in (*details, *others)]
    assert len(ids) == len(set(ids)) == 3 * len(books)
    visits = {item["_url"]: item["_id"].rpartition("-")[0] for item in details}
    assert sorted(item["_id"] for item in others) == sorted(
        f"{visit}-{number}" for visit in visits.values() for number in (1, 2)
    )


def check_archive(out: Path, store: str | None) -> None:
    archived = {url for url in archived_urls(out) if not url.endswith("/robots.txt")}
    assert archived == {url for url in WEB.urls_to_archive() if "//shop" in url}
    check_records(out)
    check_warc_indexes(out)
    committed = asyncio.run(read_frontier(out, store))
    assert {path.name: path.stat().st_size for path in out.glob("*.gz")} == committed


def check_settled(out: Path, store: str | None) -> None:
    """The items that are settled so far are those of whole pages, once. No page failed but those that were lost."""
    committed, dead = asyncio.run(read_frontier(out, store)), asyncio.run(read_dead(out, store))
    assert [item for item in dead if "its worker was lost" not in str(item.reason)] == []
    lines = [line for kind in list_kinds(out, committed) for line in read_item_lines(out, committed, kind)]
    ids = [json.loads(line)["_id"] for line in lines]
    visits = {one.rpartition("-")[0] for one in ids}
    assert sorted(ids) == sorted(f"{visit}-{number}" for visit in visits for number in range(3))


def kill_until_done(
    words: Sequence[str], chance: random.Random, *, points: Sequence[str], processes: int, check: Callable[[], None]
) -> int:
    """Run a crawl that is killed at each of the points in turn, and then let it end. Return how often it was killed."""
    killed = 0
    for point in points:
        number = draw_number(chance, point)
        whole = "all:" if processes > 1 and chance.random() < 0.5 else ""
        code, err = run(words, kill=f"{whole}{point}:{number}")
        assert code in (0, 1, -signal.SIGKILL), err
        killed += code == -signal.SIGKILL or "exited with code -9" in err
        check()
    # A page that several processes have died with is dead, as it may be what kills them.
    code, err = run([*words, "--retry-failed"])
    assert code == 0, err
    return killed


def draw_number(chance: random.Random, point: str) -> int:
    """Return at which passage of a point to kill; each kind of items is exported in its turn."""
    return chance.randint(1, {"line": 3 * WEB.shops * WEB.books, "export": 2}.get(point, 8))


def kill_exports(out: Path, file: Path, chance: random.Random) -> None:
    """Kill `swath export --items`. Each file is the old or the new one; the next export writes all of them."""
    words = ["export", "--items", str(file), "--out", str(out)]
    for number in range(KILLS_OF_EXPORT):
        point = EXPORTING[number % len(EXPORTING)]
        for path in list_exported(file):
            path.write_bytes(OLD)
        code, err = run(words, kill=f"{point}:{draw_number(chance, point)}", module=SPIDER)
        assert code == -signal.SIGKILL, err
        for path, count in zip(list_exported(file), (len(BOOKS), 2 * len(BOOKS)), strict=True):
            assert (found := path.read_bytes()) == OLD or found.count(b"\n") == count
    code, err = run(words)
    assert code == 0, err
    assert sorted(file.parent.glob(f"{file.stem}*")) == list_exported(file)


@pytest.mark.timeout(1_200 if SOAK else 240)
@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("kind", ["sqlite", "postgres"])
def test_every_item_is_there_exactly_once(
    kind: str, seed: int, spawned: WebProcess, request: pytest.FixtureRequest, tmp_path: Path
) -> None:
    chance = random.Random(seed)
    processes = chance.randint(1, 4) if SOAK else PROCESSES[kind]
    out, items, store = tmp_path / "out", tmp_path / "items.jsonl", None
    options = ["--run", f"{SPIDER}:crawler", "--items", str(items), "--lease", "1s", "--processes", str(processes)]
    if kind == "postgres":
        database: str = request.getfixturevalue("database")
        store = f"{database}&schema=crawl" if "?" in database else f"{database}?schema=crawl"
        options += ["--store", store]
    words = crawl_words(spawned, out, *options, urls=WEB.shop_seeds)
    points = sorted(chance.choices(POINTS, k=KILLS), key=POINTS.index) if SOAK else POINTS_OF_STORE[kind]
    check = partial(check_settled, out, store)
    assert kill_until_done(words, chance, points=points, processes=processes, check=check) > 1
    check_items(items)
    check_archive(out, store)
    kill_exports(out, tmp_path / "exported.jsonl", chance)
    check_items(tmp_path / "exported.jsonl")


def test_a_process_that_has_lost_its_lease_commits_no_items(spawned: WebProcess, database: str, tmp_path: Path) -> None:
    """INV-2: it is suspended between the write and the settlement, until another machine has handled its pages."""
    store = f"{database}&schema=crawl" if "?" in database else f"{database}?schema=crawl"
    options = ["--run", f"{SPIDER}:crawler", "--lease", "1s", "--store", store]
    outs = [tmp_path / "here", tmp_path / "there"]
    here, there = (crawl_words(spawned, out, *options, urls=WEB.shop_seeds) for out in outs)
    suspended = subprocess.Popen(
        [sys.executable, "-m", "swath", *here], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        env=environment(KILL="stop:write:5"),
    )  # fmt: skip
    try:
        assert wait(lambda: is_suspended(suspended.pid), SECONDS)
        code, err = run(there)
        assert code == 0, err
        suspended.send_signal(signal.SIGCONT)
        _, err = suspended.communicate(timeout=SECONDS)
    finally:
        suspended.kill()
        suspended.communicate()
    assert suspended.returncode == 0, err
    joined = tmp_path / "joined.jsonl"
    code, err = run(["export", "--items", str(joined), "--store", store, *(f"--out={out}" for out in outs)])
    assert code == 0, err
    check_items(joined)
    mine, theirs = map(archived_urls, outs)
    assert {url for url in mine & theirs if not url.endswith("/robots.txt")} == set()
    assert len(mine) > 1


def is_suspended(pid: int) -> bool:
    return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "T"
