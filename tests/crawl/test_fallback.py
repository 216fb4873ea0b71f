"""Bare host names: https, http, then `www.`, as in browsers."""

import asyncio
from pathlib import Path
from typing import Any

import pytest

from swath.core.item import Dead, Done, Item, Outcome, Release, Retry
from swath.crawl.failed_pages import retry_failed_pages
from swath.crawl.fallback import MAX_REASON
from swath.crawl.http.response import FailureKind, Response, make_failure
from swath.crawl.seeds import load_scope, read_seeds
from swath.crawl.settings import CrawlSettings
from swath.crawl.workspace import open_workspace
from swath.frontier import Frontier
from tests.crawl.driving import Ran, explained, swath_command
from tests.crawl.handling import answered, handling, settle
from tests.crawl.web import Exchange, serving

BARE = {"depth": 0, "bare": True}


def failing(kind: FailureKind, *, up: str = "none") -> Any:
    """Return what a web answers whose hosts fail, except for URLs that begin with `up`."""

    def say(url: str) -> Response:
        if url.startswith(up):
            return answered(url, 404) if url.endswith("/robots.txt") else answered(url, 200, b"hello")
        return make_failure(url, kind, "because", started=0.0, ended=0.0)

    return say


async def drain(frontier: Frontier, handler: Any) -> list[tuple[str, Outcome]]:
    """Handle and settle items until none is left, and return the outcomes that end an item or an attempt."""
    ended = []
    while (status := await frontier.status()).waiting:
        if status.delayed:
            await frontier._store.wait(0.01)
        if (claim := await frontier.claim(limit=1)) is not None:
            outcome = await handler(claim.items[0])
            await settle(claim, outcome._replace(after=0.0) if isinstance(outcome, Retry | Release) else outcome)
            if not isinstance(outcome, Release):
                ended.append((claim.items[0].key, outcome))
    return ended


async def visit(say: Any, url: str = "https://a.example/", payload: Any = BARE, **options: Any) -> Any:
    async with handling(say, delay=0.0, **{"retries": 3, **options}) as (frontier, handler, actor):
        actor.names = {name: ["8.8.8.8"] for name in ("a.example", "www.a.example")}
        await frontier.add(Item(url, url.split("/")[2], 3, payload))
        return await drain(frontier, handler), actor.asked, frontier, handler


@pytest.mark.parametrize("robots", [True, False], ids=["robots", "no-robots"])
@pytest.mark.parametrize("kind", ["refused", "tls", "timeout-connect", "timeout-first-byte", "reset", "unreachable"])
@pytest.mark.parametrize(
    ("up", "forms"),
    [
        ("https://a.", []),
        ("http://a.", ["https://a.example/"]),
        ("https://www.", ["https://a.example/", "http://a.example/"]),
        ("http://www.", ["https://a.example/", "http://a.example/", "https://www.a.example/"]),
    ],
)
async def test_a_form_that_cannot_be_reached_is_followed_by_the_next(
    robots: bool, kind: FailureKind, up: str, forms: list[str]
) -> None:
    ended, asked, _, _ = await visit(failing(kind, up=up), robots=robots)
    (last, outcome) = ended[-1]
    assert last == f"{up.removesuffix('a.')}a.example/"
    assert isinstance(outcome, Done)
    assert outcome.result == {"status": 200}
    # Each form is repeated once, and then says which one follows.
    assert [(key, type(one)) for key, one in ended[:-1]] == [(f, t) for f in forms for t in (Retry, Done)]
    following = [one.result["fallback"] for _, one in ended if isinstance(one, Done) and "fallback" in one.result]
    assert following == [*forms, last][1:]
    reason = f"{kind.partition('-')[0]}: because"
    assert all(one.result["error"] == reason for _, one in ended[:-1] if isinstance(one, Done))
    assert len(asked) == 2 * len(forms) + 1 + robots


async def test_it_is_an_error_when_every_form_fails() -> None:
    ended, _, _, _ = await visit(failing("tls"))
    key, outcome = ended[-1]
    assert key == "http://www.a.example/"
    assert isinstance(outcome, Dead)
    assert outcome.reason == (
        "tls: because (https://a.example/, http://a.example/, https://www.a.example/, http://www.a.example/)"
    )
    assert [type(one).__name__ for _, one in ended] == ["Retry", "Done"] * 3 + ["Retry"] * 3 + ["Dead"]


async def test_a_name_that_does_not_exist_is_not_tried_with_another_scheme() -> None:
    ended, _, _, _ = await visit(failing("dns"), retries=0)
    assert [key for key, _ in ended] == ["https://a.example/", "https://www.a.example/"]
    first, last = (outcome for _, outcome in ended)
    assert (first.started, type(last)) == (False, Dead)


@pytest.mark.parametrize("status", [403, 500, 503])
async def test_a_status_is_an_answer(status: int) -> None:
    ended, _, _, _ = await visit(lambda url: answered(url, status), robots=False, retries=0)
    assert [(key, outcome.result) for key, outcome in ended] == [("https://a.example/", {"status": status})]


@pytest.mark.parametrize("kind", ["url", "descriptors", "private"])
async def test_a_failure_of_this_machine_or_its_settings_is_not_followed(kind: FailureKind) -> None:
    async with handling(failing(kind), delay=0.0) as (frontier, handler, _):
        await frontier.add(Item("https://a.example/", "a.example", 3, BARE))
        claim = await frontier.claim()
        assert claim is not None
        outcome = await handler(claim.items[0])
    assert "fallback" not in (getattr(outcome, "result", None) or {})


async def test_a_seed_with_a_scheme_and_a_link_do_not_fall_back() -> None:
    for payload in ({"depth": 0}, {"depth": 1, "from": "https://b.example/"}):
        ended, _, _, _ = await visit(failing("tls"), payload=payload, robots=False)
        assert [type(one).__name__ for _, one in ended] == ["Retry"] * 3 + ["Dead"]
        assert ended[-1][1].reason == "tls: because"


@pytest.mark.parametrize("lane", ["host", "domain", "ip"])
async def test_each_form_is_in_the_lane_of_its_host(lane: str) -> None:
    async with handling(failing("refused", up="http://www."), delay=0.0, retries=0, lane=lane) as (
        frontier,
        handler,
        actor,
    ):
        actor.names = {"a.example": ["8.8.8.8"], "www.a.example": ["9.9.9.9"]}
        await frontier.add(Item("https://a.example/", "a.example", 3, BARE))
        await drain(frontier, handler)
        lanes = {found.lane async for found in frontier.lanes()}
    named = {"host": {"a.example", "www.a.example"}, "domain": {"a.example"}}
    assert lanes == named.get(lane, {"a.example", "www.a.example", "8.8.8.8", "9.9.9.9"})


@pytest.mark.parametrize("lane", ["host", "ip"])
@pytest.mark.parametrize("recovers", [True, False])
async def test_a_later_form_that_leads_back_makes_the_earlier_one_a_page(lane: str, recovers: bool) -> None:
    """Otherwise the site would be lost: the target of the redirect is known, and done."""
    tries = 0

    def say(url: str) -> Response:
        nonlocal tries
        if url.startswith("http:"):
            return answered(url, 301, Location="https://a.example/")
        tries += 1
        if recovers and tries > 2:
            return answered(url, 200, b"hello")
        return make_failure(url, "timeout", "because", started=0.0, ended=0.0)

    ended, _, _, _ = await visit(say, robots=False, retries=2, lane=lane)
    ended = [(key, one) for key, one in ended if not (isinstance(one, Done) and "passed_on_to" in one.result)]
    after = ended[[key for key, _ in ended].index("http://a.example/") + 1 :]
    assert [key for key, _ in after] == ["https://a.example/"] * (1 if recovers else 3)
    last = after[-1][1]
    if recovers:
        assert isinstance(last, Done)
        assert last.result == {"status": 200}
    else:
        assert isinstance(last, Dead)


@pytest.mark.parametrize("lane", ["host", "domain", "ip"])
async def test_a_retry_begins_with_the_first_form_and_ends(lane: str) -> None:
    """It fetches one form if the host is back, and fails once more if it is not. Each round tries each form."""
    up = False

    def say(url: str) -> Response:
        found: Response = failing("refused", up="http" if up else "none")(url)
        return found

    async with handling(say, delay=0.0, retries=0, lane=lane) as (frontier, handler, actor):
        actor.names = {"a.example": ["8.8.8.8"], "www.a.example": ["9.9.9.9"]}
        await frontier.add(Item("https://a.example/", "a.example", 3, BARE))
        for rounds in (1, 2, 3):
            await drain(frontier, handler)
            assert (await frontier.status()).dead == 1
            assert len(actor.asked) == 4 * rounds
            await retry_failed_pages(frontier)
        up = True
        await drain(frontier, handler)
        status = await frontier.status()
        assert (status.dead, (await frontier.counters())["pages"]) == (0, 1)
        assert actor.asked[-1] == "https://a.example/"


async def test_a_redirect_from_a_later_form_is_retried_for_itself() -> None:
    """Failed pages are made ready again while it is queued: it is a page of its own, and not lost."""

    def say(url: str) -> Response:
        if url == "http://a.example/":
            return answered(url, 302, Location="http://a.example/home")
        found: Response = failing("refused", up="http:")(url)
        return found

    async with handling(say, delay=0.0, retries=0) as (frontier, handler, actor):
        await frontier.add(Item("https://a.example/", "a.example", 3, BARE))
        while actor.asked[-1:] != ["http://a.example/"]:
            claim = await frontier.claim(limit=1)
            if claim is not None:
                outcome = await handler(claim.items[0])
                await settle(claim, outcome._replace(after=0.0) if isinstance(outcome, Retry | Release) else outcome)
        await retry_failed_pages(frontier)
        ((key, last),) = await drain(frontier, handler)
        assert key == "http://a.example/home"
        assert isinstance(last, Done)
        assert last.result == {"status": 200}


async def test_a_later_form_has_the_priority_of_the_seed() -> None:
    async with handling(failing("tls"), delay=0.0, retries=0, robots=False) as (_, handler, _):
        outcome = await handler(Item("https://a.example/", "a.example", 7, BARE, partition=0, position=1))
        assert isinstance(outcome, Done)
        assert [form.priority for form in outcome.discovered if isinstance(form, Item)] == [7]


async def test_a_form_that_cannot_be_reached_is_not_a_page_for_max_pages() -> None:
    async with handling(failing("tls"), delay=0.0, retries=0, robots=False, max_pages=1) as (_, handler, _):
        outcome = await handler(Item("https://a.example/", "a.example", payload=BARE, partition=0, position=1))
        assert isinstance(outcome, Done)
        assert (handler.pages_left, outcome.counters) == (1, {})


async def test_a_long_reason_is_shortened() -> None:
    async with handling(failing("tls"), delay=0.0, retries=0, robots=False) as (_, handler, _):
        page = Item("https://a.example/", "a.example", payload=BARE, partition=0, position=1)
        outcome = await handler._fetcher._fallback.fall_back(
            page, "http://a.example/", "tls: " + "x" * 9_999, started=True
        )
    (form,) = outcome.discovered
    assert isinstance(form, Item)
    assert len(form.payload["tried"][0][1]) == MAX_REASON


@pytest.mark.parametrize("scope", ["page", "prefix", "host", "domain"])
async def test_every_scope_contains_the_other_forms(scope: str, tmp_path: Path) -> None:
    settings = CrawlSettings(out=str(tmp_path), scope=scope)
    async with open_workspace(settings, read_seeds(["a.example/x/"])) as workspace:
        claim = await workspace.frontier.claim()
        assert claim is not None
        assert [(item.key, item.payload) for item in claim.items] == [("https://a.example/x/", BARE)]
    loaded = load_scope(settings)
    for form in ("http://a.example/x/", "https://www.a.example/x/", "http://www.a.example/x/"):
        assert loaded.find_refusal(form, 0) is None


async def _run(words: list[str]) -> Ran:
    return await asyncio.to_thread(swath_command, *words)


async def test_the_same_name_does_not_start_again(tmp_path: Path) -> None:
    """The real command: a host that speaks only http, then a second run with the same words."""

    async def answer(exchange: Exchange) -> None:
        await exchange.ok(
            b"<a href=/more>x</a>" if exchange.path == "/" else b"", headers=b"Content-Type: text/html\r\n"
        )

    out = str(tmp_path / "out")
    async with serving(answer) as server:
        rules = (f"plain.example:80:127.0.0.1:{server.port}", "::127.0.0.1:1")
        words = ["crawl", "plain.example", "--out", out, "--delay", "0s", "--allow-private", "--json"]
        words += [word for rule in rules for word in ("--connect-to", rule)]
        first = await _run(words)
        again = await _run(words)
        requests = [request.split()[1] for request in server.requests]
    assert (first.code, first.summary["pages"], first.summary["dead"]) == (0, 2, 0), first.err
    assert requests == [b"/robots.txt", b"/", b"/more"]
    assert (again.code, again.summary["pages_in_all"]) == (0, 2)
    said = await _run(["explain", "plain.example", "--store", f"sqlite:///{out}/frontier.db"])
    assert said.code == 0
    assert said.out.startswith("https://plain.example/ could not be reached (refused: ")
    assert "so http://plain.example/ was tried. http://plain.example/ was done" in said.out
    settings = CrawlSettings(out=out)
    earlier = await explained(settings, "https://plain.example/")
    assert earlier["result"]["fallback"] == "http://plain.example/"
