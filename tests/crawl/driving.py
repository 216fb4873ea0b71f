"""Run crawls in tests: as a command, as a process that can be killed, or inside the test."""

import json
import os
import subprocess
import sys
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import swath
from swath import Status, Summary
from swath.crawl.archive import index
from swath.crawl.job import CrawlJob
from swath.crawl.seed_list import Seed
from swath.crawl.seeds import read_seeds
from swath.crawl.settings import CrawlSettings
from swath.crawl.workspace import Workspace, open_workspace
from swath.testing.web import WebProcess

TIMEOUT = 120.0
LEASE_SECONDS = 3.0  # short, so that the pages of a killed process are soon taken over


@dataclass(frozen=True, slots=True)
class Ran:
    """The result of a `swath` command."""

    code: int
    out: str
    err: str

    @property
    def summary(self) -> dict[str, Any]:
        *_, last = [json.loads(line) for line in self.out.splitlines()]
        assert last["event"] == "summary", self.out
        return dict(last)


def swath_command(*words: str, timeout: float = TIMEOUT, stdin: str | None = None) -> Ran:
    """Run `swath` as a user would."""
    ran = subprocess.run(
        [sys.executable, "-m", "swath", *words],
        capture_output=True, text=True, timeout=timeout, check=False, input=stdin, env=environment(),
    )  # fmt: skip
    return Ran(ran.returncode, ran.stdout, ran.stderr)


def crawl_words(spawned: WebProcess, out: Path, *options: str, urls: Sequence[str] = ()) -> list[str]:
    return [
        "crawl", *urls, "--out", str(out), "--connect-to", spawned.connect_to, "--allow-private", "--json", *options,
    ]  # fmt: skip


def crawl(spawned: WebProcess, out: Path, *options: str, urls: Sequence[str] = ()) -> Ran:
    """Run `swath crawl` on a web."""
    ran = swath_command(*crawl_words(spawned, out, *options, urls=urls))
    assert ran.code in (0, 1), ran.err
    return ran


def begin(words: Sequence[str], *, lease: float = LEASE_SECONDS) -> "subprocess.Popen[str]":
    """Start a `swath` command in its own process group, so that a test can kill it."""
    return subprocess.Popen(
        [sys.executable, "-m", "swath", *words, "--lease", str(lease)],
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, start_new_session=True, env=environment(),
    )  # fmt: skip


def environment(**more: str) -> dict[str, str]:
    return {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path)), **more}


async def crawl_here(settings: CrawlSettings, seeds: Iterable[str]) -> tuple[Summary, CrawlJob]:
    """Run a whole crawl in this process, so that a test can patch it."""
    async with open_workspace(settings, read_seeds(seeds)) as workspace:
        job = CrawlJob(settings, workspace.frontier)
        summary = await job.run()
        index.write_index(settings.directory, await workspace.frontier.outputs())
    return summary, job


async def prepare(settings: CrawlSettings, urls: Iterable[str]) -> Workspace:
    """Open the workspace of a crawl and close it again, as a run does that ends at once."""
    async with open_workspace(settings, map(Seed, urls)) as workspace:
        return workspace


async def read_status(settings: CrawlSettings) -> Status:
    async with swath.open(settings.store_url, create=False) as frontier:
        return await frontier.status()


async def read_outputs(settings: CrawlSettings) -> dict[str, int]:
    async with swath.open(settings.store_url, create=False) as frontier:
        return await frontier.outputs()


async def explained(settings: CrawlSettings, url: str) -> Mapping[str, Any]:
    async with swath.open(settings.store_url, create=False) as frontier:
        found = await frontier.explain(url)
    return {"state": found.state, "sentence": found.sentence, **found.data}
