"""Lanes of IP addresses: one for all hosts on an address, the same in every process, permanently."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

import swath
from swath.claim import Claim
from swath.core.clock import SECOND
from swath.core.errors import InvalidSetting, LeaseLost
from swath.core.item import Dead, Done, Item, Outcome, Release, Retry
from swath.crawl.http.response import Response, make_failure
from swath.crawl.lanes import choose_ip_lane
from swath.crawl.settings import CrawlSettings
from swath.frontier import Frontier
from swath.testing.web import LoggedRequest, Web, find_too_close, find_too_many_at_once, spawn
from tests.bench import bench
from tests.crawl.archives import archived_urls
from tests.crawl.driving import crawl_here, swath_command
from tests.crawl.handling import Actor, answered, handler_on, handling, settle
from tests.crawl.web import Exchange, serving

SETTINGS = CrawlSettings(out="nowhere", scope="any", lane="ip", robots=False)
HERE, THERE = "127.0.0.1", "127.0.0.2"
DELAY = 0.02
FOUND = b"HTTP/1.1 302 Found\r\nLocation: %s\r\nContent-Length: 0\r\n\r\n"
SLACK = 0.003  # between the server's clock readings and the client's


@pytest.mark.parametrize(
    ("addresses", "lane"),
    [
        (["192.0.2.7"], "192.0.2.7"),
        (["192.0.2.9", "192.0.2.7"], "192.0.2.7"),
        (["2001:db8::1", "192.0.2.9"], "192.0.2.9"),
        (["2001:db8::2", "2001:db8::1"], "[2001:db8::1]"),
    ],
    ids=["one", "two", "both-families", "ipv6"],
)
def test_the_order_of_addresses_does_not_change_the_lane(addresses: list[str], lane: str) -> None:
    assert choose_ip_lane(addresses) == lane == choose_ip_lane(addresses[::-1])


def test_lane_ip_is_refused_with_a_proxy() -> None:
    with pytest.raises(InvalidSetting, match=r"--lane ip .* --proxy"):
        CrawlSettings(out="nowhere", lane="ip", proxy="http://127.0.0.1:3128")


# passing on


async def claimed(frontier: Frontier, *, limit: int = 10) -> Claim:
    claim = await frontier.claim(limit=limit)
    assert claim is not None
    return claim


def passed_to(outcome: Outcome) -> str:
    assert isinstance(outcome, Done), outcome
    assert not outcome.started
    (onward,) = outcome.discovered
    assert isinstance(onward, Item)
    return onward.lane


async def test_the_first_settled_address_of_a_host_is_final() -> None:
    """Also for a process that resolves another address, and for pages that were discovered before."""
    async with handling(answered, lane="ip", delay=0.0, max_workers_per_host=3) as (frontier, first, actor):
        actor.names = {"a.example": ["192.0.2.1"], "b.example": ["192.0.2.1"]}
        await frontier.add([Item(f"http://a.example/{number}", "a.example") for number in range(3)])
        claim = await claimed(frontier)
        assert [item.lane_in_flight for item in claim.items] == [0, 1, 2]
        second = handler_on(frontier, SETTINGS, other := Actor(answered))
        other.names = {"a.example": ["192.0.2.2"]}
        decided = await first(claim.items[0])
        early = [await second(item) for item in claim.items[1:]]  # in flight beside the one who decides
        assert all(isinstance(outcome, Release) and not outcome.started for outcome in early)
        await claim.settle([decided])
        assert passed_to(decided) == "192.0.2.1"
        assert [passed_to(await second(item)) for item in claim.items[1:]] == ["192.0.2.1"] * 2
        assert other.asked == []
        found = second._processor._links.select_new_items(
            ["http://a.example/x", "http://b.example/"], depth=1, referrer=""
        )
        assert [item.lane for item in found] == ["192.0.2.1", "b.example"]


async def test_an_address_that_was_not_settled_is_not_used() -> None:
    """A worker that lost its lease while it resolved the host (INV-2) does not use its address either."""
    async with bench() as b:
        slow, quick = Actor(answered), Actor(answered)
        slow.names, quick.names = {"a.example": ["192.0.2.1"]}, {"a.example": ["192.0.2.2"]}
        lost, taker = (handler_on(b.frontier, SETTINGS, actor) for actor in (slow, quick))
        await b.frontier.add([Item("http://a.example/", "a.example")])
        held = await b.frontier.claim(limit=1, lease=60)
        assert held is not None
        outcome = await lost(held.items[0])
        b.clock.advance(61)
        taken = await b.frontier.claim(limit=1, lease=60)
        assert taken is not None
        await settle(taken, await taker(taken.items[0]))
        with pytest.raises(LeaseLost):
            await held.settle([outcome])
        assert await b.frontier.facts(["address a.example"]) == {"address a.example": "192.0.2.2"}
        assert lost._processor._links.lane_of("http://a.example/x") == "a.example"
        assert (await b.frontier.explain("http://a.example/", lane="192.0.2.2")).state == "ready"
        assert (await b.frontier.explain("http://a.example/", lane="192.0.2.1")).state == "unknown"


@pytest.mark.parametrize(("retries", "kind"), [(1, Retry), (0, Dead)], ids=["again", "given-up"])
async def test_a_host_that_cannot_be_resolved_is_retried_like_any_other(retries: int, kind: type[Outcome]) -> None:
    async with handling(answered, lane="ip", retries=retries) as (_, handler, actor):

        async def resolve(url: str) -> Response:
            return make_failure(url, "dns", "the name server failed", started=0.0, ended=0.0)

        actor.resolve = resolve  # type: ignore[method-assign]
        outcome = await handler(Item("http://gone.example/", "gone.example"))
    assert isinstance(outcome, kind)
    assert actor.asked == []


# robots.txt that leads elsewhere


def hopping(url: str) -> Response:
    return answered(url, 302, Location="http://b.example/rules") if "a.example" in url else answered(url, 404)


@pytest.mark.parametrize("names", [["192.0.2.1"], ["192.0.2.2"], []], ids=["same-address", "another", "none"])
async def test_a_robots_txt_redirect_is_followed_in_the_lane_of_its_target(names: list[str]) -> None:
    """In the turn of the page if that is the same lane, which would otherwise wait for itself."""
    async with handling(hopping, lane="ip", delay=0.0, retries=0) as (frontier, handler, actor):
        actor.names = {"a.example": ["192.0.2.1"], "b.example": names}
        page = Item("http://a.example/", "192.0.2.1", payload={"depth": 0})
        outcomes = [await handler(page), await handler(page)]
        assert all(isinstance(outcome, Release) for outcome in outcomes[: 2 if names else 1])
        if names == ["192.0.2.2"]:
            claim = await claimed(frontier)
            assert [item.lane for item in claim.items] == ["192.0.2.2"]
            await settle(claim, await handler(claim.items[0]))
        last = outcomes[-1] if not names else await handler(page)
        assert await frontier.claim(limit=1) is None
    asked = ["http://a.example/robots.txt", "http://b.example/rules", "http://a.example/"]
    if names:
        assert isinstance(last, Done)
        assert actor.asked == asked
    else:
        assert isinstance(last, Dead)
        assert actor.asked == asked[:1]
        assert last.reason == "dns: no such host (robots.txt redirects to http://b.example/rules)"


def boomerang(url: str) -> Response:
    targets = {"http://a.example/robots.txt": "http://b.example/", "http://b.example/": "http://a.example/rules"}
    return answered(url, 302, Location=targets[url]) if url in targets else answered(url, 404)


async def test_a_robots_txt_redirect_away_and_back_does_not_deadlock() -> None:
    async with handling(boomerang, delay=0.0) as (frontier, handler, actor):
        await frontier.add([page := Item("http://a.example/page", "a.example", payload={"depth": 0})])
        for _ in range(2):
            assert isinstance(await handler(page), Release)
        claim = await claimed(frontier)  # its own lane is blocked
        assert [item.lane for item in claim.items] == ["b.example"]
        await settle(claim, await handler(claim.items[0]))
        assert [item.key for item in (await claimed(frontier)).items] == [page.key]
        assert isinstance(await handler(page), Release)
        assert isinstance(await handler(page), Done)
    assert actor.asked == ["http://a.example/robots.txt", "http://b.example/", "http://a.example/rules", page.key]


async def test_pages_wait_longer_for_a_robots_txt_that_takes_longer() -> None:
    """Each page waits by itself, because other hosts share the lane. Frequent rechecks would fill every claim."""
    async with handling(hopping, lane="domain", delay=0.0) as (frontier, handler, _):
        page = Item("http://a.example/", "a.example", payload={"depth": 0})
        assert isinstance(await handler(page), Release)  # it took the turn for the redirect
        soon = await handler(page)
        fact = (await frontier.facts(["robots http://a.example"]))["robots http://a.example"]
        url, redirects, until = fact["redirect"]
        await frontier.learn({"robots http://a.example": {**fact, "redirect": [url, redirects, until - 100 * SECOND]}})
        late = await handler(page)
    assert isinstance(soon, Release)
    assert isinstance(late, Release)
    assert (soon.after or 0.0) < 50 < 100 <= (late.after or 0.0)


async def test_a_fetched_robots_txt_does_not_end_the_block_of_a_shared_lane() -> None:
    async with handling(hopping, lane="domain", delay=0.0) as (frontier, handler, _):
        await frontier.add([page := Item("http://a.example/", "a.example", payload={"depth": 0})])
        for _ in range(2):
            assert isinstance(await handler(page), Release)
        await frontier.block(page.lane, seconds=60.0)  # as for a Retry-After of another host in it
        claim = await claimed(frontier)
        assert [item.lane for item in claim.items] == ["b.example"]
        await settle(claim, await handler(claim.items[0]))
        assert await frontier.claim(limit=1) is None


# a whole crawl


@asynccontextmanager
async def forwarded(port: int) -> AsyncIterator[None]:
    """What listens on one address listens on another too."""

    async def copy(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while data := await reader.read(65_536):
                writer.write(data)
                await writer.drain()
        except ConnectionError:
            pass
        finally:
            writer.close()

    async def forward(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        to_reader, to_writer = await asyncio.open_connection(HERE, port)
        await asyncio.gather(copy(reader, to_writer), copy(to_reader, writer))

    async with await asyncio.start_server(forward, THERE, port):
        yield


async def test_all_hosts_of_an_address_share_one_pace(tmp_path: Path) -> None:
    """INV-3 from the server's side: seeds, links, redirects and robots.txt of many names, by two processes."""
    web = Web(seed=3, hosts=6, pages=24, faults=frozenset({"redirects", "robots-redirect-away"}), slow_seconds=0.2)
    out, store = tmp_path / "out", f"sqlite:///{tmp_path / 'out' / 'frontier.db'}"
    at = {name: (HERE, THERE)[number % 2] for number, name in enumerate(sorted(web.sites))}
    assert at["robots-redirect-away.demo.test"] != at["robots-keeper.demo.test"]
    with spawn(web, log=tmp_path / "requests.jsonl") as spawned:
        rules = [word for name in at for word in ("--connect-to", f"{name}::{at[name]}:{spawned.port}")]
        options = ("--scope", "domain", "--lane", "ip", "--delay", str(DELAY), "--retries", "1", "--processes", "2")
        words = ("crawl", *web.seeds, "--out", str(out), *options, *rules, "--allow-private", "--json")
        async with forwarded(spawned.port):
            ran = await asyncio.to_thread(swath_command, *words)
        entries = spawned.requests

    def address(entry: LoggedRequest) -> str:
        return at[entry.host]

    assert ran.summary["stopped_by"] == "done", ran.err
    assert web.check({entry.url for entry in entries}, archived_urls(out), retries=1) == []
    assert find_too_close(entries, DELAY, slack=SLACK, lane=address) == []
    assert find_too_many_at_once(entries, 1, lane=address) == {}
    assert find_too_close(entries, DELAY, slack=SLACK, lane=lambda _: "all")  # the addresses do not wait for each other
    async with swath.open(store, create=False) as frontier:
        facts = await frontier.facts([f"address {name}" for name in at])
    assert facts
    assert {key.removeprefix("address "): lane for key, lane in facts.items()}.items() <= at.items()
    explained = swath_command("explain", web.seeds[0], "--store", store)
    assert explained.code == 0
    assert '"status":200' in explained.out.replace(" ", "")


@pytest.mark.parametrize("lane", ["domain", "ip"])
async def test_a_late_robots_txt_delays_its_own_host_only(lane: str, tmp_path: Path) -> None:
    """The target's lane is busy until every other page of the waiting lane was fetched."""
    rest = {f"b.shop.test/{number}" for number in range(5)}
    at = dict.fromkeys(("a.shop.test", "b.shop.test"), HERE)
    at |= dict.fromkeys(("www.other.test", "rules.other.test"), THERE)
    asked: list[str] = []
    busy, free = asyncio.Event(), asyncio.Event()

    async def answer(exchange: Exchange) -> None:
        asked.append(exchange.host + exchange.path)
        if rest <= set(asked):
            free.set()
        match asked[-1]:
            case "a.shop.test/robots.txt":
                await busy.wait()
                await exchange.send(FOUND % b"http://rules.other.test/rules")
            case "www.other.test/":
                busy.set()
                await free.wait()
                await exchange.ok()
            case _:
                await exchange.ok(b"")

    async with serving(answer) as server, forwarded(server.port):
        rules = tuple(f"{name}::{address}:{server.port}" for name, address in at.items())
        settings = CrawlSettings(
            out=str(tmp_path), lane=lane, delay=0.0, retries=0, connect_to=rules, allow_private=True
        )
        seeds = [f"http://{page}" for page in ("www.other.test/", "a.shop.test/", *rest)]
        summary, _ = await crawl_here(settings, seeds)
    assert summary.stopped_by == "done"
    assert max(map(asked.index, rest)) < asked.index("rules.other.test/rules") < asked.index("a.shop.test/")
