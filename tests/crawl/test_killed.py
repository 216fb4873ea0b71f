"""INV-3, INV-4 and INV-5 of whole crawls: through SIGKILL, a database that goes away, and two machines at once."""

import os
import random
import time
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import pytest

from swath.crawl.settings import CrawlSettings
from swath.testing.web import Web, WebProcess, spawn
from tests.conftest import StartPostgres
from tests.crawl.driving import begin, crawl_words
from tests.crawl.killing import DELAY, END_SECONDS, check_whole, kill_until_done, mended, wait

SOAK = os.environ.get("SWATH_SOAK") == "1"
SEEDS = [int(os.environ["SWATH_SEED"])] if "SWATH_SEED" in os.environ else range(1, 21) if SOAK else [1]
KILLS = 8 if SOAK else 3
HOSTS = 6


@pytest.fixture
def spawned(tmp_path: Path) -> Iterator[WebProcess]:
    web = Web(seed=7, hosts=HOSTS, pages=100, faults=False, skew=0.3)
    with spawn(web, log=tmp_path / "requests.jsonl") as spawned:
        yield spawned


def words(spawned: WebProcess, out: Path, *options: str) -> list[str]:
    return crawl_words(
        spawned, out, "--scope", "domain", "--delay", str(DELAY), "--timeout", "5s", "--warc-size", "1MB", *options,
        urls=spawned.web.seeds,
    )  # fmt: skip


def as_settings(out: Path, store: str | None = None) -> CrawlSettings:
    return CrawlSettings(out=str(out), store=store, scope="domain", delay=DELAY, timeout=5.0, warc_size=1_000_000)


@pytest.mark.parametrize("seed", SEEDS)
def test_a_crawl_is_complete_after_many_kills(spawned: WebProcess, tmp_path: Path, seed: int) -> None:
    chance = random.Random(seed)
    out = tmp_path / "out"
    after = partial(mended, as_settings(out))
    killed = kill_until_done(words(spawned, out), spawned, chance=chance, kills=KILLS, after=after)
    assert killed > 1
    check_whole(spawned, [out], killed=killed)


@pytest.mark.parametrize("seed", SEEDS)
def test_a_crawl_survives_the_death_of_its_processes(
    spawned: WebProcess, database: str, tmp_path: Path, seed: int
) -> None:
    chance = random.Random(seed)
    out = tmp_path / "out"
    store = f"{database}&schema=crawl" if "?" in database else f"{database}?schema=crawl"
    after = lambda: mended(as_settings(out, store)) if chance.random() < 0.5 else None  # noqa: E731
    command = words(spawned, out, "--store", store, "--processes", "2")
    killed = kill_until_done(command, spawned, chance=chance, kills=KILLS - 1, after=after)
    assert killed > 1
    check_whole(spawned, [out], killed=killed)


def test_a_crawl_survives_restarts_of_its_database(
    spawned: WebProcess, start_postgres: StartPostgres, tmp_path: Path
) -> None:
    """The server closes every connection twice and returns; the crawl waits and continues."""
    server = start_postgres()
    out = tmp_path / "out"
    process = begin(words(spawned, out, "--store", f"{server.dsn()}&schema=crawl"))
    outages = 0
    for requests in (10, 30):
        assert wait(partial(_asked, spawned, requests), 60.0)
        server.stop("immediate")
        time.sleep(0.5)
        server.start()
        outages += 1
    _, err = process.communicate(timeout=END_SECONDS)
    assert process.returncode == 0, err
    check_whole(spawned, [out], killed=outages)


def _asked(spawned: WebProcess, requests: int) -> bool:
    return len(spawned.requests) >= requests


def test_two_machines_share_a_crawl(spawned: WebProcess, database: str, tmp_path: Path) -> None:
    """The same command twice with one store and an --out each: together everything, once."""
    store = f"{database}&schema=crawl" if "?" in database else f"{database}?schema=crawl"
    outs = [tmp_path / "here", tmp_path / "there"]
    processes = [begin(words(spawned, out, "--store", store)) for out in outs]
    for process in processes:
        _, err = process.communicate(timeout=END_SECONDS)
        assert process.returncode == 0, err
    check_whole(spawned, outs, killed=0)
