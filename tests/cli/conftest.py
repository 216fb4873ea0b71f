"""The real command in a real process, on real stores."""

import asyncio
import json
import os
import sys
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol, TypeVar

import pytest

import swath as library
from swath import Explanation, Frontier, Item, Status
from tests.cli.forked import forks

T = TypeVar("T")

TIMEOUT = 60
COMMAND = (sys.executable, "-m", "swath")


@dataclass(frozen=True)
class Result:
    code: int
    out: str
    err: str

    def json(self) -> Any:
        assert self.code == 0, self
        return json.loads(self.out)

    def json_lines(self) -> list[Any]:
        assert self.code == 0, self
        return [json.loads(line) for line in self.out.splitlines()]

    def facts(self) -> dict[str, str]:
        """`name<tab>value` lines."""
        assert self.code == 0, self
        return dict(line.split("\t", 1) for line in self.out.splitlines() if "\t" in line)

    @property
    def words(self) -> str:
        """All output in one line, without boxes."""
        return " ".join((self.out + self.err).replace("│", " ").split())


class Run(Protocol):
    def __call__(self, *args: str, stdin: str | bytes = ...) -> Result: ...


def environment(**changes: str) -> dict[str, str]:
    """The test's own, without what would change how output looks."""
    hidden = ("SWATH_STORE", "FORCE_COLOR", "NO_COLOR", "TTY_COMPATIBLE", "COLUMNS", "LINES")
    kept = {name: value for name, value in os.environ.items() if name not in hidden}
    return {**kept, "PYTHONIOENCODING": "utf-8", **changes}


def run_swath(*args: str, store: str | None = None, stdin: str | bytes = b"") -> Result:
    given = {} if store is None else {"SWATH_STORE": store}
    text = stdin.encode() if isinstance(stdin, str) else stdin
    code, out, err = forks().run(args, stdin=text, env=environment(**given), timeout=TIMEOUT)
    return Result(code, out.decode(), err.decode())


# For what is decided before the store is asked; a process costs too much to do everything twice.
sqlite_only = pytest.mark.parametrize("url", ["sqlite"], indirect=True)


@pytest.fixture(params=["sqlite", "postgres"])
def url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """A store that is not there yet."""
    if request.param == "sqlite":
        return f"sqlite:///{tmp_path}/work.db"
    return str(request.getfixturevalue("database"))


@pytest.fixture
def swath(url: str) -> Run:
    """`swath` on the test's store."""

    def run(*args: str, stdin: str | bytes = b"") -> Result:
        return run_swath(*args, store=url, stdin=stdin)

    return run


def on(url: str, work: Callable[[Frontier], Awaitable[T]], **options: Any) -> T:
    """Do something with the store from here, without the command."""

    async def done() -> T:
        async with library.open(url, **options) as frontier:
            return await work(frontier)

    return asyncio.run(done())


def add(url: str, *items: Item | str, **options: Any) -> int:
    return on(url, lambda frontier: frontier.add(items), **options)


def look(url: str) -> Status:
    return on(url, lambda frontier: frontier.status(), create=False)


def where(url: str, key: str) -> Explanation:
    return on(url, lambda frontier: frontier.explain(key), create=False)


def wait_until_added(url: str, count: int) -> None:
    async def work(frontier: Frontier) -> None:
        async with asyncio.timeout(TIMEOUT):
            while (await frontier.status()).ready < count:
                await frontier._store.wait(0.02)

    on(url, work)


def kill(url: str, *keys: str, lane: str = "default", reason: str = "HTTP 410", error: str | None = None) -> None:
    """Add items and settle them as dead."""

    async def work(frontier: Frontier) -> None:
        left = set(keys)
        await frontier.add([Item(key, lane) for key in keys])
        while left:
            claim = await frontier.claim(limit=1000)
            assert claim is not None
            await claim.settle([item.dead(reason=reason, error=error) for item in claim.items])
            left -= {item.key for item in claim.items}

    on(url, work)
