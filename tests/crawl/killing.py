"""Kill crawls repeatedly and check what must hold afterwards."""

import asyncio
import os
import random
import signal
import subprocess
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import partial
from pathlib import Path

from swath.crawl import workspace
from swath.crawl.settings import CrawlSettings
from swath.testing.web import WebProcess, find_repeats, find_too_close, find_too_many_at_once
from tests.crawl.archives import archived_urls, check_records, check_warc_indexes
from tests.crawl.driving import begin, prepare, read_outputs

DELAY = 0.1
SLACK = 0.005
START_SECONDS = 60.0
END_SECONDS = 120.0


def kill_until_done(
    words: Sequence[str], spawned: WebProcess, *, chance: random.Random, kills: int, after: Callable[[], None]
) -> int:
    """Run a crawl, kill it after some requests of its own, and again; then let it end. Where it has several processes,
    one of these dies first every other time. Returns how many were killed."""
    killed = 0
    for number in range(kills):
        process = begin(words)
        _await_requests(process, spawned, chance.randint(1, 25))
        family = children(process.pid)
        if family and number % 2:
            os.kill(chance.choice(family), signal.SIGKILL)
            killed += 1
            _await_requests(process, spawned, 2)  # the others go on
        time.sleep(chance.random() * 0.05)
        if process.poll() is not None:
            break
        process.kill()
        killed += max(1, len(family))
        assert wait(partial(_all_gone, family), 15.0), "children outlive their parent"
        process.communicate(timeout=START_SECONDS)
        after()
    process = begin(words)
    _, err = process.communicate(timeout=END_SECONDS)
    assert process.returncode == 0, err
    return killed


def _await_requests(process: "subprocess.Popen[str]", spawned: WebProcess, count: int) -> None:
    seen = len(spawned.requests)
    if not wait(lambda: len(spawned.requests) >= seen + count or process.poll() is not None, START_SECONDS):
        raise AssertionError(f"no {count} requests more: {_said(process)}")
    assert process.returncode in (None, 0), _said(process)


def children(pid: int) -> list[int]:
    """The crawling processes that a process has started."""
    with suppress(OSError):
        found = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
        return [int(child) for child in found if b"spawn_main" in Path(f"/proc/{child}/cmdline").read_bytes()]
    return []


def mended(settings: CrawlSettings) -> None:
    """What a resume does first leaves whole records only, and no byte that is not settled."""
    asyncio.run(prepare(settings, []))
    lengths = asyncio.run(read_outputs(settings))
    found = {path.name: path.stat().st_size for path in workspace.list_outputs(settings.directory)}
    assert found == {name: lengths[name] for name in found}
    check_records(settings.directory)
    check_warc_indexes(settings.directory, all_finished=False)


def check_whole(spawned: WebProcess, outs: Sequence[Path], *, killed: int) -> None:
    """Every page was fetched and is in the archive once; hosts were asked again at most for what was in hand, and
    never sooner than they should (INV-1, INV-3, INV-4, INV-5)."""
    entries = spawned.requests
    archived = [archived_urls(out) for out in outs]
    together = frozenset().union(*archived)
    assert sum(map(len, archived)) - _robots(archived) == len(together) - _robots([together])
    assert spawned.web.check({entry.url for entry in entries}, together) == []
    again: dict[str, int] = {}
    for url, count in find_repeats(entries).items():
        host = url.split("/")[2]
        again[host] = again.get(host, 0) + count - 1
    # One page of a host is in flight at a time.
    assert {host: count for host, count in again.items() if count > killed} == {}
    assert find_too_close(entries, DELAY, slack=SLACK) == []
    assert find_too_many_at_once(entries, 1) == {}
    for out in outs:
        check_records(out)
        check_warc_indexes(out)


def _robots(archived: Sequence[set[str] | frozenset[str]]) -> int:
    return sum(url.endswith("/robots.txt") for urls in archived for url in urls)


def _all_gone(pids: Sequence[int]) -> bool:
    return not any(map(_alive, pids))


def _alive(pid: int) -> bool:
    try:
        return b"spawn_main" in Path(f"/proc/{pid}/cmdline").read_bytes()
    except OSError:
        return False


def wait(condition: Callable[[], bool], seconds: float) -> bool:
    deadline = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > deadline:
            return False
        time.sleep(0.02)
    return True


def _said(process: "subprocess.Popen[str]") -> str:
    process.kill()
    out, err = process.communicate()
    return f"{process.returncode}\n{out}\n{err}"
