"""Hosts that cannot be reached: their pages fail with the cause, and thousands of pages cost a few requests."""

import time
from typing import Any

import pytest

from swath.core.item import Dead, Done, Item, Release, Retry
from swath.crawl.failed_pages import forget_host_failures
from swath.crawl.http.response import FailureKind, Response, make_failure
from swath.crawl.robots.failure import MAX_HOLD, MIN_HOLD, OriginFailure, next_failure
from swath.crawl.robots.policy import DAY, HOUR, SECOND, policy_from_response
from swath.crawl.settings import CrawlSettings
from swath.frontier import Frontier
from tests.crawl.handling import answered, handler_on, handling, said, settle

ROBOTS = "http://a.example/robots.txt"
FACT = "robots http://a.example"


def page(path: str = "", *, attempts: int = 0, **more: Any) -> Item:
    return Item(
        f"http://a.example/{path}",
        "a.example",
        payload={"depth": 0},
        attempts=attempts,
        partition=0,
        position=1,
        **more,
    )


def failing(kind: FailureKind, detail: str = "a detail") -> Any:
    return lambda url: make_failure(url, kind, detail, started=0.0, ended=0.0)


async def let_pass(frontier: Frontier) -> OriginFailure:
    """Let the failure of the origin end, and return it."""
    fact = (await frontier.facts([FACT]))[FACT]
    failure = OriginFailure(*fact["failure"])
    await frontier.learn({FACT: {**fact, "failure": list(failure._replace(until=0))}})
    return failure


@pytest.mark.parametrize(
    ("kind", "reason"),
    [
        ("refused", "refused: a detail"),
        ("unreachable", "unreachable: a detail"),
        ("timeout-connect", "timeout: a detail"),
        ("timeout-first-byte", "timeout: a detail"),
        ("tls", "tls: a detail"),
        ("reset", "reset: a detail"),
        ("dns", "dns: a detail"),
    ],
)
async def test_pages_of_an_unreachable_host_are_dead_with_the_cause(kind: FailureKind, reason: str) -> None:
    """Also in other processes, and without a request or a delay for each page."""
    async with handling(failing(kind), delay=0.0, retries=1) as (frontier, handler, actor):
        settings = CrawlSettings(out="nowhere", scope="any", delay=0.0, retries=1)
        other = handler_on(frontier, settings, actor)
        first = await handler(page())
        assert isinstance(first, Retry)
        assert (first.reason, first.after is not None and first.after > 0) == (reason, True)
        for one in (handler, other):
            waiting = await one(page("waiting"))
            assert isinstance(waiting, Release)
            assert (waiting.started, waiting.after is not None and waiting.after > 0) == (False, True)
        assert actor.asked == [ROBOTS]
        await let_pass(frontier)
        last = await handler(page(attempts=1))
        assert isinstance(last, Dead)
        assert (last.reason, last.started) == (reason, kind != "dns")
        for one in (handler, other):
            unvisited = await one(page("unvisited"))
            assert isinstance(unvisited, Dead)
            assert (unvisited.reason, unvisited.started) == (reason, False)
            ((line, archived, _),) = unvisited.output
            assert (line["url"], line["failed"], line["attempts"]) == ("http://a.example/unvisited", reason, 2)
            assert archived is None
        assert actor.asked == [ROBOTS] * 2
        assert handler._stats.errors == {reason.split(":")[0]: 3}


async def test_other_pages_of_the_host_are_not_claimed_while_it_waits_for_a_retry() -> None:
    async with handling(failing("refused"), delay=0.0, retries=1) as (frontier, handler, _):
        await frontier.add([page("queued")])
        await handler(page())
        assert await frontier.claim(limit=1) is None


@pytest.mark.parametrize("kind", ["dns-negative", "url"])
async def test_a_failure_that_no_retry_changes_is_final_at_once(kind: FailureKind) -> None:
    async with handling(failing(kind), delay=70.0, retries=3) as (_, handler, actor):
        outcomes = [await handler(page()), await handler(page("other"))]
    assert [isinstance(outcome, Dead) and not outcome.started for outcome in outcomes] == [True, True]
    assert actor.asked == [ROBOTS]


@pytest.mark.parametrize("robots", [True, False])
async def test_retried_pages_do_not_die_of_an_old_failure(robots: bool) -> None:
    """Failed pages that are made ready again, while the crawl runs or later, are really tried again."""
    up = False

    def say(url: str) -> Response:
        return answered(url, 200) if up else make_failure(url, "refused", "", started=0.0, ended=0.0)

    async with handling(say, delay=0.0, retries=0, robots=robots) as (frontier, handler, actor):
        for _ in range(2):
            assert isinstance(await handler(page()), Dead)
        assert len(actor.asked) == 1
        await forget_host_failures(frontier)
        assert isinstance(await handler(page()), Dead)
        assert len(actor.asked) == 2
        await forget_host_failures(frontier)
        up = True
        outcomes = [await handler(page()) for _ in range(1 + robots)]
        assert isinstance(outcomes[-1], Done)


async def test_a_forgotten_failure_does_not_use_up_retries() -> None:
    async with handling(failing("refused"), delay=0.0, retries=1) as (frontier, handler, _):
        await handler(page())
        await forget_host_failures(frontier)
        assert isinstance(await handler(page()), Retry)
        assert (await let_pass(frontier)).tries == 1


async def test_a_page_waits_as_long_as_its_host_has_retries() -> None:
    """A page that has used up its own retries does not die before the others."""
    async with handling(failing("refused"), delay=0.0, retries=2) as (_, handler, _):
        waiting = await handler(page(attempts=2))
    assert isinstance(waiting, Release)
    assert waiting.after


async def test_after_the_failure_of_a_host_ended_the_next_page_tries_again() -> None:
    """Once, and if it fails again, the host is left alone for as long as it has been failing."""
    async with handling(failing("refused"), delay=0.0, retries=0) as (frontier, handler, actor):
        await handler(page())
        await let_pass(frontier)
        assert isinstance(await handler(page()), Dead)
        assert isinstance(await handler(page()), Dead)
        assert (await let_pass(frontier)).tries == 2
    assert actor.asked == [ROBOTS] * 2


def test_the_pause_after_failures_grows_as_for_a_page() -> None:
    pauses, failure, now = [], None, 0
    for _ in range(7):
        failure = next_failure(
            failure, reason="refused: x", is_permanent=False, now=now, retries=3, interval=1.0, retry_mark=None
        )
        pauses.append((failure.until - now) / SECOND)
        now = failure.until
    assert pauses[:4] == [2.0, 4.0, 8.0, MIN_HOLD / SECOND]
    assert failure is not None
    assert (failure.since, failure.tries) == (0, 7)
    later = next_failure(
        failure, reason="dns: x", is_permanent=False, now=9 * DAY, retries=3, interval=1.0, retry_mark=None
    )
    assert later.until - 9 * DAY == MAX_HOLD


@pytest.mark.parametrize(("truncated", "reason"), [("time", "timeout"), ("disconnect", "reset")])
async def test_half_of_a_robots_txt_is_a_failure(truncated: Any, reason: str) -> None:
    """Its rules are not known: the rest of the file may disallow more."""

    def say(url: str) -> Response:
        return said(url, 200, b"HTTP/1.1 200 x\r\n\r\n", b"User-agent: *\nAl", truncated=truncated)

    async with handling(say, delay=0.0, retries=0) as (_, handler, actor):
        outcome = await handler(page())
    assert isinstance(outcome, Dead)
    assert outcome.reason == f"{reason}: robots.txt is incomplete"
    assert actor.asked == [ROBOTS]


@pytest.mark.parametrize(("hours", "applies"), [(25, True), (72, False)])
async def test_earlier_rules_apply_while_robots_txt_cannot_be_requested(hours: int, applies: bool) -> None:
    """A host that goes away during a crawl: its pages are retried one by one, and do not die together."""

    def say(url: str) -> Response:
        return make_failure(url, "refused", "", started=0.0, ended=0.0) if "robots" in url else answered(url)

    async with handling(say, delay=0.0, retries=0) as (frontier, handler, actor):
        now = time.time_ns() // 1_000
        rules = policy_from_response(200, now=now - hours * HOUR, body=b"User-agent: *\nDisallow: /private\n")
        await frontier.learn({FACT: rules.to_json()})
        first = await handler(page())
        if applies:
            assert isinstance(first, Release)
            assert isinstance(await handler(page()), Done)
            refused = await handler(page("private"))
            assert isinstance(refused, Done)
            assert (refused.result or {})["excluded"] == "robots"
        else:
            assert isinstance(first, Dead)
    assert actor.asked == [ROBOTS, "http://a.example/"][: 1 + applies]


async def test_a_request_that_fails_is_one_error_also_if_earlier_rules_apply() -> None:
    async with handling(failing("refused"), delay=0.0, retries=0, robots=False) as (frontier, handler, _):
        rules = policy_from_response(200, now=time.time_ns() // 1_000)
        await frontier.learn({FACT: rules.to_json()})
        assert isinstance(await handler(page()), Dead)
        assert handler._stats.errors == {"refused": 1}


async def test_a_form_of_a_bare_seed_that_sends_no_request_does_not_use_a_turn() -> None:
    async with handling(failing("refused"), delay=0.0, retries=0) as (_, handler, actor):
        assert isinstance(await handler(page("other")), Dead)
        bare = page()._replace(payload={"depth": 0, "bare": True})
        outcome = await handler(bare)
        assert isinstance(outcome, Done)
        assert (outcome.result or {})["fallback"] == "https://www.a.example/"
        assert (outcome.started, actor.asked) == (False, [ROBOTS])


def leading_away(url: str) -> Response:
    if url == ROBOTS:
        return answered(url, 302, Location="http://b.example/rules")
    return make_failure(url, "refused", "connection refused", started=0.0, ended=0.0)


async def test_a_redirect_of_robots_txt_that_cannot_be_followed_is_a_failure() -> None:
    """Its retries are counted across redirects, and its item is not a page in the page list."""
    async with handling(leading_away, delay=0.0, retries=1) as (frontier, handler, actor):
        for tries in (1, 2):
            for _ in range(2):
                assert isinstance(await handler(page()), Release)
            claim = await frontier.claim(limit=1)
            assert claim is not None
            hop = await handler(claim.items[0])
            assert isinstance(hop, Done)
            assert (hop.output, hop.result) == (None, {"failed": "refused: connection refused"})
            await settle(claim, hop)
            fact = (await frontier.facts([FACT]))[FACT]
            assert (fact["failure"][2], fact["failure"][3]) == (tries, tries == 2)
            if tries == 1:
                assert isinstance(await handler(page()), Release)
                await let_pass(frontier)
        dead = await handler(page())
    assert isinstance(dead, Dead)
    assert dead.reason == "refused: connection refused (robots.txt redirects to http://b.example/rules)"
    assert actor.asked == [ROBOTS, "http://b.example/rules"] * 2


async def test_a_robots_txt_that_fails_and_then_answers_is_obeyed() -> None:
    answers = iter((failing("reset")(ROBOTS), answered(ROBOTS, 503), answered(ROBOTS, 503)))
    async with handling(lambda _: next(answers), delay=0.0, retries=1) as (frontier, handler, _):
        assert isinstance(await handler(page()), Retry)
        await let_pass(frontier)
        assert isinstance(await handler(page()), Release)
        assert (await frontier.facts([FACT]))[FACT]["tries"] == 1


# without a robots.txt request before the page


async def test_without_robots_an_unreachable_host_costs_as_few_requests() -> None:
    async with handling(failing("refused"), delay=0.0, retries=1, robots=False) as (frontier, handler, actor):
        assert isinstance(await handler(page("1")), Retry)
        assert isinstance(await handler(page("2")), Release)
        await let_pass(frontier)
        assert [isinstance(await handler(page(f"{number}")), Dead) for number in range(5)] == [True] * 5
    assert len(actor.asked) == 2


@pytest.mark.parametrize(("kind", "pages"), [("reset", 0), ("timeout-first-byte", 0), ("protocol", 0), ("refused", 1)])
async def test_without_robots_a_failure_of_one_page_is_not_one_of_the_host(kind: FailureKind, pages: int) -> None:
    """If it may be the page's own, or if other pages of the host were fetched."""
    counters = {"pages": pages}
    async with handling(failing(kind), delay=0.0, retries=0, robots=False) as (_, handler, actor):
        for number in range(3):
            assert isinstance(await handler(page(f"{number}", lane_counters=counters)), Dead)
    assert len(actor.asked) == 3


async def test_with_lanes_of_addresses_a_name_server_that_fails_is_asked_once_per_retry() -> None:
    async with handling(answered, lane="ip", delay=0.0, retries=0) as (_, handler, actor):
        asked = []

        async def resolve(url: str) -> Response:
            asked.append(url)
            return make_failure(url, "dns", "the name server did not answer", started=0.0, ended=0.0)

        actor.resolve = resolve  # type: ignore[method-assign]
        outcomes = [await handler(page(f"{number}")) for number in range(3)]
    assert all(isinstance(one, Dead) and one.reason.startswith("dns:") and not one.started for one in outcomes)
    assert len(asked) == 1


# pages


@pytest.mark.parametrize(("kind", "dead"), [("dns-negative", True), ("dns", False)])
async def test_a_page_whose_host_no_longer_exists_is_dead_at_once(kind: FailureKind, dead: bool) -> None:
    """After its robots.txt was fetched: no retry, and no delay, because nothing was sent."""
    say = failing(kind, "no such host")
    async with handling(lambda url: answered(url, 404) if "robots" in url else say(url), delay=1.0) as (_, handler, _):
        assert isinstance(await handler(page()), Release)
        outcome = await handler(page())
    if dead:
        assert isinstance(outcome, Dead)
        assert (outcome.reason, outcome.started) == ("dns: no such host", False)
    else:
        assert isinstance(outcome, Retry)


@pytest.mark.parametrize("robots", [True, False], ids=["robots", "no-robots"])
async def test_a_name_that_had_an_address_is_retried(robots: bool) -> None:
    """Such a negative answer is an outage, or the mistake of a resumed command: queued pages must not die of it."""
    answers = {ROBOTS: lambda url: answered(url, 404)}
    missing = failing("dns-negative", "no such host")
    async with handling(lambda url: answers.get(url, missing)(url), delay=0.0, robots=robots) as (_, handler, _):
        if robots:
            assert isinstance(await handler(page()), Release)
        outcome = await handler(page(lane_counters={"pages": 1}))
        assert isinstance(outcome, Retry)
        assert outcome.reason == "dns: no such host"
        assert isinstance(await handler(page(attempts=3, lane_counters={"pages": 1})), Dead)
