"""Run a crawler, kill it at its moments, and repeat its command until it says that it has finished."""

import asyncio
import os
import signal
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from benchmarks.kills.contestants import Contestant, make_environment, read_items
from benchmarks.kills.shop_server import Moment, ShopServer
from benchmarks.results import Figure
from swath.testing.web import DemoBook

RUN_SECONDS = 300.0  # a run that takes longer counts as stuck
MAX_FAILURES = 3  # runs in a row that end without success
FIELDS = ("title", "price", "stock", "rating", "category", "description")


@dataclass(frozen=True, slots=True)
class Ended:
    """How a run ended."""

    code: int | None
    """None if it was stuck and had to be ended."""
    killed: bool
    finished: bool
    last_words: str


async def kill_until_finished(
    contestant: Contestant, server: ShopServer, moments: Sequence[Moment], home: Path, *, store: str = ""
) -> Figure:
    """Return what became of the items, and what the crawler said at the end."""
    server.log.pages.clear()
    waiting = list(moments)
    ends: list[Ended] = []
    while not ends or not (ends[-1].finished or _has_given_up(ends)):
        ends.append(await _run(contestant, server, waiting.pop(0) if waiting else None, home, store))
    last = ends[-1]
    items = count_items(read_items(home / contestant.items), server.books)
    return {
        "name": contestant.name,
        "books": len(server.books),
        **items,
        "pages_again": sum(count - 1 for count in server.log.pages.values()),
        "kills": sum(end.killed for end in ends),
        "runs": len(ends),
        "failed_runs": sum(not end.killed and not end.finished for end in ends),
        "says": "finished" if last.finished else f"exit code {last.code}",
        "exit_code": last.code,
        "last_words": last.last_words,
    }


def _has_given_up(ends: Sequence[Ended]) -> bool:
    latest = ends[-MAX_FAILURES:]
    return len(latest) == MAX_FAILURES and not any(end.killed or end.finished for end in latest)


async def _run(contestant: Contestant, server: ShopServer, moment: Moment | None, home: Path, store: str) -> Ended:
    command = [word.format(url=server.url, store=store) for word in contestant.command]
    log = home / "output.log"
    with log.open("wb") as output:
        process = await asyncio.create_subprocess_exec(
            *command, cwd=home, env=make_environment(contestant), stdin=asyncio.subprocess.DEVNULL, stdout=output,
            stderr=output, start_new_session=True,
        )  # fmt: skip
        server.log.begin(process.pid, moment)
        code: int | None = None
        try:
            async with asyncio.timeout(RUN_SECONDS):
                code = await process.wait()
        except TimeoutError:
            pass
        finally:
            server.log.end()
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            await process.wait()
    words = log.read_text(errors="replace")
    return Ended(code, server.log.killed, code == 0 and contestant.finished in words, words[-500:])


def count_items(items: Iterable[Mapping[str, Any]], books: Mapping[str, DemoBook]) -> dict[str, int]:
    """Count the items that are lost, there more than once, broken, or not what the page of their book has."""
    found: Counter[str] = Counter()
    broken = wrong = 0
    for item in items:
        url = item.get("_url", item.get("url"))
        book = books.get(url) if isinstance(url, str) else None
        if book is None or not isinstance(url, str):
            broken += 1
            continue
        found[url] += 1
        wrong += any(item.get(name) != getattr(book, name) for name in FIELDS)
    return {
        "items": found.total(),
        "lost": len(books) - len(found),
        "doubled": found.total() - len(found),
        "broken": broken,
        "wrong": wrong,
    }
