"""Names are asked once, kept within bounds, and failures are values that hold for a while."""

import asyncio
import socket

import pytest

from swath.crawl.http.resolver import (
    FAILURE_SECONDS,
    MAX_TTL_SECONDS,
    MIN_TTL_SECONDS,
    NEGATIVE_SECONDS,
    ResolveError,
    Resolver,
)
from tests.crawl.dns import SERVFAIL, NameServer


class Clock:
    now = 1_000.0

    def __call__(self) -> float:
        return self.now


def a_resolver(
    server: NameServer, clock: Clock | None = None, *, cached_names: int = 100, at_once: int = 10
) -> Resolver:
    return Resolver(
        nameservers=[server.address],
        family=socket.AF_INET,
        cached_names=cached_names,
        at_once=at_once,
        repeat_seconds=0.0,
        clock=clock or Clock(),
    )


@pytest.mark.parametrize(
    ("seconds", "holds"), [(1, MIN_TTL_SECONDS), (0, MIN_TTL_SECONDS), (300, 300), (10**6, MAX_TTL_SECONDS)]
)
async def test_an_answer_holds_for_its_time_within_bounds(seconds: int, holds: float) -> None:
    clock = Clock()
    server = NameServer({"a.example": (seconds, ["198.51.100.1", "198.51.100.2"])})
    async with server, a_resolver(server, clock) as resolver:
        assert sorted(await resolver.resolve("a.example")) == ["198.51.100.1", "198.51.100.2"]
        # What c-ares keeps goes by a clock of its own, so that the server cannot show how long the answer holds here.
        assert resolver._cache["a.example"].expires - clock.now == pytest.approx(holds, abs=2)
        clock.now += holds - 3
        kept = resolver._cache["a.example"]
        await resolver.resolve("a.example")
        assert resolver._cache["a.example"] is kept
        clock.now += 4
        await resolver.resolve("a.example")
        assert resolver._cache["a.example"].expires > clock.now


async def test_both_families() -> None:
    server = NameServer({"both.example": (60, ["198.51.100.1", "2001:db8::1"])})
    async with server, Resolver(nameservers=[server.address], family=socket.AF_UNSPEC) as resolver:
        assert sorted(await resolver.resolve("both.example")) == ["198.51.100.1", "2001:db8::1"]


async def test_the_hosts_file_is_read() -> None:
    async with NameServer({}) as server, a_resolver(server) as resolver:
        assert "127.0.0.1" in await resolver.resolve("localhost")
    assert server.questions.total() == 0


async def test_one_question_serves_all_who_wait_even_when_one_gives_up() -> None:
    async with NameServer({"slow.example": (60, ["hold", "198.51.100.1"])}) as server, a_resolver(server) as resolver:
        waiting = [asyncio.ensure_future(resolver.resolve("slow.example")) for _ in range(50)]
        await server.heard.wait()
        waiting[0].cancel()
        server.release.set()
        results = await asyncio.gather(*waiting, return_exceptions=True)
        assert isinstance(results[0], asyncio.CancelledError)
        assert results[1:] == [("198.51.100.1",)] * 49
    assert server.questions["slow.example"] == 1


@pytest.mark.parametrize(
    ("name", "kind", "detail", "queries"),
    [
        ("missing.example", "nxdomain", "no such host", 2),
        ("empty.example", "nodata", "the name has no addresses", 2),
        ("broken.example", "servfail", "the name server failed", None),
        ("a..b", "badname", "not a valid host name", 0),
    ],
)
async def test_a_failure_has_a_kind_and_is_cached(name: str, kind: str, detail: str, queries: int | None) -> None:
    """A negative answer is a failure after a second query. It is cached for longer than others, which are retried."""
    clock = Clock()
    table: dict[str, tuple[int, list[str]] | int] = {"broken.example": SERVFAIL, "empty.example": (60, [])}
    async with NameServer(table) as server, a_resolver(server, clock) as resolver:
        for _ in range(3):
            with pytest.raises(ResolveError) as failed:
                await resolver.resolve(name)
            assert (failed.value.kind, str(failed.value)) == (kind, detail)
            assert failed.value.is_permanent == (kind != "servfail")
        asked = server.questions.total()
        assert queries in (None, asked)
        clock.now += (FAILURE_SECONDS if kind == "servfail" else NEGATIVE_SECONDS) + 0.1
        table[name] = (60, ["198.51.100.9"])
        if kind != "badname":
            assert await resolver.resolve(name) == ("198.51.100.9",)
            assert server.questions.total() > asked


async def test_a_negative_answer_is_checked_with_a_real_query() -> None:
    """The name server says that its answer is valid for an hour, and c-ares caches it as long."""
    server = NameServer({}, negative_seconds=3_600)
    server.then["late.example"] = (60, ["198.51.100.9"])
    async with server, a_resolver(server) as resolver:
        assert await resolver.resolve("late.example") == ("198.51.100.9",)
        for _ in range(3):
            with pytest.raises(ResolveError):
                await resolver.resolve("missing.example")
            resolver._cache.clear()
    assert server.questions == {"late.example": 2, "missing.example": 1 + 3}  # c-ares answers two of the first queries


async def test_hostile_names_are_failures_as_well() -> None:
    async with NameServer({}) as server, a_resolver(server) as resolver:
        for name in ("", "x" * 300, "a" * 64 + ".example", "ü.example", "a b", "\0", "xn--\udcff", "." * 10):
            with pytest.raises(ResolveError):
                await resolver.resolve(name)


async def test_the_cache_is_bounded_and_keeps_what_is_used() -> None:
    names = [f"h{number}.example" for number in range(20)]
    server = NameServer({name: (3_600, ["198.51.100.1"]) for name in names})
    async with server, a_resolver(server, cached_names=5) as resolver:
        for name in names:
            await resolver.resolve(name)
            await resolver.resolve(names[0])
        assert len(resolver._cache) == 5
        assert names[0] in resolver._cache
    assert server.questions[names[0]] == 1


async def test_questions_at_once_are_bounded() -> None:
    names = [f"h{number}.example" for number in range(30)]
    server = NameServer({name: (60, ["hold", "198.51.100.1"]) for name in names})
    async with server, a_resolver(server, at_once=4) as resolver:
        waiting = [asyncio.ensure_future(resolver.resolve(name)) for name in names]
        while len(server.questions) < 4:
            server.heard.clear()
            await server.heard.wait()
        for _ in range(100):
            await asyncio.sleep(0)
        assert len(server.questions) == 4
        server.release.set()
        await asyncio.gather(*waiting)


async def test_closing_gives_up_what_is_asked() -> None:
    async with NameServer({"slow.example": (60, ["hold"])}) as server:
        resolver = a_resolver(server)
        waiting = asyncio.ensure_future(resolver.resolve("slow.example"))
        await server.heard.wait()
        await resolver.close()
        with pytest.raises(asyncio.CancelledError):
            await waiting
