"""The directory of a crawl: concurrent starts, and repair after a crash."""

import asyncio
import os
import re
import secrets
import socket
from collections.abc import AsyncIterator, Callable, Iterator
from itertools import islice
from multiprocessing import get_context
from multiprocessing.synchronize import Barrier
from pathlib import Path
from typing import Any

import pytest

from swath.core.errors import UsageError
from swath.core.item import Item
from swath.crawl import seeds, workspace
from swath.crawl.archive.output import CrawlOutput
from swath.crawl.archive.record import Capture
from swath.crawl.seed_list import Seed
from swath.crawl.settings import CrawlSettings
from swath.crawl.settings_file import resolve_settings
from swath.crawl.workspace import open_workspace
from swath.files.errors import OutputBusy
from tests.crawl.driving import prepare, read_status, swath_command
from tests.recorder import PATIENCE

TOGETHER = 4
ROUNDS = 20


def _name(folder: Path, number: int, barrier: Barrier, tell: Callable[[list[str]], None]) -> None:
    """Name every folder at the same time as other processes, and yield to them wherever a lock is missing."""
    token = secrets.token_hex

    def slowly(size: int) -> str:
        for _ in range(1_000):
            os.sched_yield()
        return token(size)

    secrets.token_hex = slowly  # type: ignore[assignment]
    names = []
    for path in sorted(folder.iterdir()):
        barrier.wait(PATIENCE)
        names.append(workspace.get_output_name(path, number))
    tell(names)


def test_processes_that_start_together_agree_on_the_archive_name(tmp_path: Path) -> None:
    """A resume finds the files of each process by this name, and truncates what was not settled."""
    folders = [tmp_path / str(number) for number in range(ROUNDS)]
    for folder in folders:
        folder.mkdir()
    context = get_context("spawn")
    barrier, told = context.Barrier(TOGETHER), context.Queue()
    processes = [context.Process(target=_name, args=(tmp_path, n, barrier, told.put)) for n in range(TOGETHER)]
    for process in processes:
        process.start()
    names = [told.get(timeout=PATIENCE) for _ in processes]
    for process in processes:
        process.join()
    for folder, given in zip(sorted(folders), zip(*names, strict=True), strict=True):
        kept = (folder / workspace.NAME_FILE).read_text().strip()
        assert sorted(given) == [f"{kept}_{number}" for number in range(TOGETHER)]


def test_an_empty_name_file_is_filled_again(tmp_path: Path) -> None:
    (tmp_path / workspace.NAME_FILE).touch()
    name = workspace.get_output_name(tmp_path, 0)
    assert len(name) > len("_0")
    assert workspace.get_output_name(tmp_path, 0) == name


@pytest.mark.parametrize(
    ("host", "named"),
    [("Crawler_7.Example.ORG", "crawler7.example.org"), ("büro", "bro"), ("", ""), ("a" * 300, "a" * 40)],
)
def test_the_names_of_warc_files_are_allowed_in_wacz(
    host: str, named: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(socket, "gethostname", lambda: host)
    settings = CrawlSettings(out=str(tmp_path))
    (output,) = _open_outputs(settings)
    capture = Capture({"url": "http://e.test/"}, (b"record", b"request"))
    output.restore({})
    output.write([[[capture]]])
    output.close()
    names = [path.name for path in workspace.list_outputs(tmp_path)]
    assert len(names) == 2
    assert all(re.fullmatch(r"[-a-z0-9._]{1,100}", name) and f"-{named}-" in name for name in names)
    assert all(workspace.is_own_output(tmp_path, name) for name in names)


def test_the_files_of_an_earlier_version_are_listed(tmp_path: Path) -> None:
    earlier = "swath-20260101000000000-00000-Host-1234abcd~0.warc.gz"
    (tmp_path / earlier).touch()
    (tmp_path / "swath-notes.warc.gz").touch()
    assert [path.name for path in workspace.list_outputs(tmp_path)] == [earlier]


def _open_outputs(settings: CrawlSettings) -> list[CrawlOutput]:
    workspace.get_archive_name(settings.directory)
    return list(workspace.open_outputs(settings))


@pytest.mark.parametrize("name", ["a b", "a%20b", "a?b", "a#b", "a\nb", "\udcff"])
def test_a_directory_with_any_name_has_its_own_frontier(tmp_path: Path, name: str) -> None:
    for out in (tmp_path / "a b", tmp_path / name):
        asyncio.run(prepare(CrawlSettings(out=str(out)), _seeds(0, 1)))
        assert (out / "frontier.db").exists()


def _seeds(first: int, last: int) -> list[str]:
    return [f"https://h{number}.example/" for number in range(first, last)]


@pytest.mark.parametrize("end", [1, 300, 18_000])
def test_a_partial_seed_from_a_crash_is_truncated(tmp_path: Path, end: int) -> None:
    """Otherwise the next seed would be appended to it, and its host would silently be out of scope."""
    settings = CrawlSettings(out=str(tmp_path / "out"), contact="me@example.org")
    asyncio.run(prepare(settings, _seeds(0, 1_000)))
    kept = tmp_path / "out" / seeds.FILE
    os.truncate(kept, end)
    asyncio.run(prepare(settings, _seeds(0, 1_000)))
    assert kept.read_text().splitlines() == _seeds(0, 1_000)


async def test_seeds_that_a_killed_start_has_not_queued_are_queued_by_the_next(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also if that one gives neither the seeds nor the settings again."""
    monkeypatch.setattr(seeds, "ADD_BATCH", 10)
    out = str(tmp_path / "out")
    names = [Seed(f"https://h{number}.example/", bare=number % 2 == 0) for number in range(30)]
    for given in (names[:20], names[20:]):  # two such starts, one after the other
        with monkeypatch.context() as patch:
            patch.setattr(seeds, "make_seed_items", _stop_after(12))
            with pytest.raises(ConnectionAbortedError):
                async with open_workspace(CrawlSettings(out=out, contact="me@example.org", scope="domain"), given):
                    pass
    settings = resolve_settings({"out": out})
    assert (settings.scope, settings.contact) == ("domain", "me@example.org")
    async with open_workspace(settings, []) as opened:
        assert opened.added == 20
        claim = await opened.frontier.claim(limit=100)
        assert claim is not None
        assert {item.key: "bare" in item.payload for item in claim.items} == dict(names)
    assert (tmp_path / "out" / seeds.FILE).read_text().split() == [seed.url for seed in names]
    assert not (tmp_path / "out" / seeds.UNQUEUED_FILE).exists()


async def test_starts_at_the_same_time_queue_the_seeds_of_each(tmp_path: Path) -> None:
    """One of them is refused later, when it finds the other one's lock."""
    settings = CrawlSettings(out=str(tmp_path / "out"), contact="me@example.org")

    async def give(first: int) -> AsyncIterator[Seed]:
        for url in _seeds(first, first + 3):
            await asyncio.sleep(0.01)
            yield Seed(url)

    async def start(first: int) -> None:
        async with open_workspace(settings, give(first)):
            pass

    await asyncio.gather(start(0), start(3))
    assert (await read_status(settings)).waiting == 6


def _stop_after(count: int) -> Callable[..., Iterator[Item]]:
    plain = seeds.make_seed_items

    def make(*args: Any) -> Iterator[Item]:
        yield from islice(plain(*args), count)
        raise ConnectionAbortedError

    return make


def test_a_refused_run_does_not_disturb_one_that_starts(tmp_path: Path) -> None:
    out = str(tmp_path / "out")

    def urls() -> Iterator[str]:
        yield from _seeds(0, 2_000)
        refused = swath_command("crawl", "htp://x", "--out", out)
        assert (refused.code, "not a URL" in refused.err) == (2, True), refused.err
        yield from _seeds(2_000, 3_000)

    assert asyncio.run(prepare(CrawlSettings(out=out, contact="me@example.org"), urls())).added == 3_000


def test_a_refused_run_does_not_change_the_settings_of_a_running_one(tmp_path: Path) -> None:
    settings = CrawlSettings(out=str(tmp_path), delay=70.0)
    asyncio.run(prepare(settings, _seeds(0, 1)))
    crawling = CrawlOutput(tmp_path, unique=workspace.get_output_name(tmp_path, 0), warc_size=None, about={})
    for more in ([], [Capture({"url": "https://h0.example/"}, None)]):  # before its first page, and then
        crawling.restore({})
        crawling.write([[more]])
        with pytest.raises(OutputBusy, match="is locked by process"):
            asyncio.run(prepare(CrawlSettings(out=str(tmp_path), delay=0.0), _seeds(0, 2)))
        status = asyncio.run(read_status(settings))
        assert (status.min_interval, status.ready) == (70.0, 1)
    crawling.close()
    assert (tmp_path / seeds.FILE).read_text().splitlines() == _seeds(0, 1)


def test_the_archive_of_another_crawl_is_not_truncated(tmp_path: Path) -> None:
    """For example if SWATH_STORE still names another crawl: unknown files are not always the remains of a crash."""
    one, two = tmp_path / "one", tmp_path / "two"
    for out in (one, two):
        asyncio.run(prepare(CrawlSettings(out=str(out)), _seeds(0, 1)))
        output = CrawlOutput(out, unique=workspace.get_output_name(out, 0), warc_size=None, about={})
        output.restore({})
        output.write([[[Capture({"url": "https://h0.example/"}, None)]]])
        output.close()
    (page,) = workspace.list_outputs(one)
    before = page.read_bytes()
    wrong = CrawlSettings(out=str(one), store=CrawlSettings(out=str(two)).store_url)
    with pytest.raises(UsageError, match=f"has an archive .* not belong to the crawl in sqlite:///{two}/frontier.db"):
        asyncio.run(prepare(wrong, _seeds(0, 1)))
    assert page.read_bytes() == before
    asyncio.run(prepare(CrawlSettings(out=str(one)), _seeds(0, 1)))
    assert workspace.list_outputs(one) == []  # nothing of it was settled
