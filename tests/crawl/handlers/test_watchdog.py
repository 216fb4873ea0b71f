"""Who may end the process if a lifespan blocks it: a command, but not the stream in a program of the user's."""

import threading
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from swath.crawl import Crawler
from swath.crawl.handlers import lifespan as lifespan_module
from swath.crawl.handlers.lifespan import BLOCKED_SECONDS, CANCEL_SECONDS, CLOSE_SECONDS, Lifespan
from tests.crawl.handlers.running import serving_pages

A = "http://a.example"


@pytest.fixture
def watchdogs(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """What happens to the timers that would end the process."""
    happened: list[str] = []

    class Watchdog:
        def __init__(self, seconds: float, function: Any) -> None:
            assert seconds == CLOSE_SECONDS + CANCEL_SECONDS + BLOCKED_SECONDS
            self.daemon = False

        def start(self) -> None:
            assert self.daemon
            happened.append("start")

        def cancel(self) -> None:
            happened.append("cancel")

    class Threading:
        Timer = Watchdog

        def __getattr__(self, name: str) -> Any:
            return getattr(threading, name)

    monkeypatch.setattr(lifespan_module, "threading", Threading())
    return happened


@asynccontextmanager
async def opened() -> AsyncIterator[str]:
    yield "state"


@pytest.mark.parametrize("owns_process", [False, True])
async def test_the_watchdog_runs_while_a_lifespan_is_closed(watchdogs: list[str], owns_process: bool) -> None:
    lifespan = Lifespan(opened, name="x", on_failure=lambda: None, owns_process=owns_process)
    assert await lifespan.open() == "state"
    assert watchdogs == []
    await lifespan.close()
    assert watchdogs == ["start"] * owns_process + ["cancel"]
    assert (lifespan.hangs, lifespan.failure) == (False, None)


async def test_a_lifespan_owns_no_process_unless_it_is_said(watchdogs: list[str]) -> None:
    lifespan = Lifespan(opened, name="x", on_failure=lambda: None)
    await lifespan.open()
    await lifespan.close()
    assert watchdogs == ["cancel"]


async def test_a_stream_does_not_end_the_process_of_its_caller(watchdogs: list[str], tmp_path: Path) -> None:
    crawler = Crawler(f"{A}/", out=str(tmp_path), delay=0.0, allow_private=True, lifespan=opened)
    async with serving_pages({f"{A}/": "x"}) as (connect_to, order):
        assert [item async for item in crawler.stream(connect_to=[connect_to])] == []
    assert order
    assert watchdogs == ["cancel"]
