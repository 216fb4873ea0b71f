"""Visit: one item of a crawl, from its turn to its outcome."""

import asyncio
import time
from datetime import UTC, datetime
from typing import Any

from swath.core.clock import SECOND, as_datetime
from swath.core.item import Done, Item, Outcome
from swath.crawl import lanes, politeness
from swath.crawl.archive import warc
from swath.crawl.archive.record import Capture, Exchange, Original, records
from swath.crawl.fact_batcher import Lookup
from swath.crawl.http.address import literal
from swath.crawl.http.fetch import Fetcher
from swath.crawl.http.response import Answer
from swath.crawl.lanes import Addresses
from swath.crawl.links import Links
from swath.crawl.pace import Paces
from swath.crawl.parse.directives import x_robots_tag
from swath.crawl.parse.feeds import GZIP
from swath.crawl.parse.page import Read, read, read_unpacked, unpacked
from swath.crawl.patient import Patient
from swath.crawl.robots.cache import KEY, TOP_PRIORITY, WAIT_SECONDS, Hop, Known, Origins, redirect_of
from swath.crawl.robots.parser import MAX_BODY
from swath.crawl.settings import CrawlSettings
from swath.crawl.stats import Tally
from swath.crawl.urls import normalise
from swath.frontier import Frontier

THREADED = 200_000  # bytes of a body from which on it is read and packed in a thread, so that other fetches go on
EXPANSION = 5  # how many times --max-size a body may have without its content codings
ROBOTS_SIZE = MAX_BODY + 1  # bytes of a robots.txt, whatever --max-size is: so many that it shows if there are more
LEAST_WAIT = 0.01  # seconds, for what is due just now
DIGEST = "sha1 "  # before the digest: the key of a fact

TRANSIENT = frozenset({500, 502, 504, 507, 520, 521, 522, 523, 524, 525, 527, 530})
BUSY = frozenset({429, 503})


class Visitor:
    """The handler of a crawl."""

    def __init__(
        self,
        frontier: Frontier,
        settings: CrawlSettings,
        *,
        fetcher: Fetcher,
        links: Links,
        tally: Tally,
        addresses: Addresses | None = None,
    ) -> None:
        """With `addresses`, lanes are those of addresses, and pages wait in lanes of hosts until theirs is known."""
        self._frontier = Patient(frontier)
        self._settings = settings
        self._fetcher = fetcher
        self._links = links
        self._tally = tally
        self._addresses = addresses
        self._shared = settings.lane != "host"  # lanes: none waits for one robots.txt, others in it have their own
        self._lookup = Lookup(self._frontier)
        self._origins = Origins(self._lookup)
        self._asking: dict[str, asyncio.Future[None]] = {}  # origins whose robots.txt is being asked for
        self._paces = Paces(self._frontier, self._lookup, delay=settings.min_interval)
        self.room: int | None = settings.max_pages  # how many more pages may be started

    async def __call__(self, item: Item) -> Outcome:
        if item.key.startswith(KEY):
            return await self._follow(item)
        if self._addresses is not None:
            if not lanes.is_address(item.lane):
                return await self._pass_on(item, self._addresses)
            self._addresses.remember(normalise.host(item.key), item.lane)
        if self.room is not None:
            if self.room <= 0:
                return item.release(started=False, after=1.0)
            self.room -= 1
        self._tally.in_flight += 1
        counts = False
        try:
            outcome = await self._visit(item)
            counts = isinstance(outcome, Done) and outcome.started
            return outcome
        finally:
            self._tally.in_flight -= 1
            if self.room is not None and not counts:
                self.room += 1

    async def _visit(self, item: Item) -> Outcome:
        most = self._settings.max_pages_per_host
        if most is not None and item.lane_visits + item.lane_in_flight >= most:
            if item.lane_visits >= most:
                return self._excluded(
                    item, "host-budget", f"{item.lane} has had {most}, as many as --max-pages-per-host allows"
                )
            return item.release(started=False, after=1.0)  # those in flight may yet fail
        await self._paces.meet(item.lane)
        if self._settings.robots:
            allowed = await self._allowed(item)
            if allowed is not None:
                return allowed
        fresh = item.attempts > 0 or self._paces.of(item.lane).closes
        return await self._settle(item, await self._fetch(item.key, item.lane, fresh=fresh))

    def _excluded(self, item: Item, why: str, rule: str | None) -> Outcome:
        """Settled without a request: the lane is ready for the next at once."""
        self._tally.refused[why] += 1
        return item.done(result={"excluded": why, "rule": rule}, started=False)

    async def _fetch(self, url: str, lane: str, *, fresh: bool, size: int = 0) -> Answer:
        address = None if self._addresses is None else literal(lane)
        answer = await self._fetcher.fetch(url, fresh=fresh, address=address, size=size)
        self._tally.took(normalise.host(url), answer.ended - answer.started)
        return answer

    # lanes of addresses

    async def _pass_on(self, item: Item, addresses: Addresses) -> Outcome:
        """From the lane of its host into that of the host's address, which whoever is alone here decides on first."""
        host = item.lane
        lane = await self._lookup.fact(lanes.KEY + host)
        facts = {}
        if lane is not None:
            addresses.remember(host, lane)
        elif item.lane_in_flight:
            return item.release(started=False, after=1.0)
        else:
            found = await self._fetcher.addresses(item.key)
            if isinstance(found, Answer):
                return await self._failed(item, found)
            lane = lanes.lane_of_addresses(found)
            facts = {lanes.KEY + host: lane}  # and remembered when it is settled: others may decide until then
        passed = Item(item.key, lane, item.priority, item.payload)
        return item.done(result={lanes.PASSED_ON: lane}, discovered=[passed], facts=facts, started=False)

    async def _lane(self, url: str) -> str | Answer:
        """The lane that a request belongs to, whether or not pages of its host are in it; or why none can be made."""
        lane = self._links.lane(url)
        if self._addresses is None or lanes.is_address(lane):
            return lane
        found = await self._fetcher.addresses(url)
        return found if isinstance(found, Answer) else lanes.lane_of_addresses(found)

    # robots.txt

    async def _allowed(self, item: Item) -> Outcome | None:
        """None when the page may be fetched now; otherwise what becomes of it first."""
        origin = normalise.origin(item.key)
        while isinstance(known := await self._origins.known(origin), Hop) or known is None:
            if (asking := self._asking.get(origin)) is None:
                asking = self._asking[origin] = asyncio.get_running_loop().create_future()
                try:
                    return await self._ask(item, origin, known)
                finally:
                    del self._asking[origin]
                    asking.set_result(None)
            await asyncio.shield(asking)
            if self._paces.paced(item.lane):
                return item.release()  # its turn went by; all who waited would go at once
        if wait := self._wait_of(known):
            return item.release(started=False, after=wait)
        self._paces.of(item.lane).crawl_delay = known.robots.delay(self._settings.user_agent)
        verdict = known.robots.verdict(item.key, self._settings.user_agent)
        return None if verdict.allowed else self._excluded(item, "robots", verdict.rule)

    async def _ask(self, item: Item, origin: str, hop: Hop | None) -> Outcome:
        """Ask an origin for its robots.txt, or for what that redirects to, which takes the turn of the page."""
        url = f"{origin}/robots.txt" if hop is None else hop.url
        lane = item.lane
        where = lane if hop is None else await self._lane(url)
        if hop is not None and isinstance(where, str) and where != lane:
            return await self._send_hop(item, origin, hop, where)
        answer = await self._fetch(url, lane, fresh=True, size=ROBOTS_SIZE) if isinstance(where, str) else where
        if answer.error == "descriptors":  # which says nothing of the host
            return await self._failed(item, answer)
        if hop is None and answer.error == "private":  # nor will it be later, and the page is at the same address
            return await self._failed(item, answer)
        known = await self._heard(origin, answer, lane=lane, hops=hop.hops if hop else 0)
        if isinstance(known, Known):
            await self._learn_pace(lane, origin, known, seconds=answer.ended - answer.started)
            if wait := self._block_of(known):
                await self._paces.block(lane, wait)
        return item.release(output=[self._capture(answer, {"kind": "robots"})])

    def _wait_of(self, known: Known) -> float:
        """Seconds until a robots.txt that could not be had is asked for again, for which its pages wait; 0: none."""
        rules = known.rules
        again = rules.kind == "deny" and rules.tries <= self._settings.retries
        return max(LEAST_WAIT, rules.expires_at / SECOND - time.time()) if again else 0.0

    def _block_of(self, known: Known) -> float:
        """Seconds of this for which the lane waits as a whole."""
        return 0.0 if self._shared else self._wait_of(known)

    async def _heard(self, origin: str, answer: Answer, *, lane: str, hops: int) -> Known | Hop:
        if answer.error is not None:
            self._tally.errors[f"robots.txt {answer.error}"] += 1
        else:
            self._tally.robots_fetched += 1
        body = b""
        if 200 <= answer.status < 300:
            body = unpacked(answer, limit=max(ROBOTS_SIZE, self._settings.max_size)).body
        first_retry = politeness.robots_retry(self._settings.min_interval)
        if answer.status in BUSY:
            first_retry = max(first_retry, _retry_after(answer) or 0.0)
            await self._paces.block(lane, first_retry)
        return await self._origins.heard(origin, answer, body=body, hops=hops, first_retry=first_retry)

    async def _send_hop(self, item: Item, origin: str, hop: Hop, where: str) -> Outcome:
        """A redirect into another lane is an item there; this lane waits for it, or each page by itself: as long again
        as it has taken so far, so that many pages are not looked at all the time."""
        added = await self._frontier.add(_hop_item(origin, hop, where, waiting=item.lane))
        if added and not self._shared:
            await self._frontier.block(item.lane, until=as_datetime(hop.until), at_least=True)
        taken = WAIT_SECONDS - (hop.until / SECOND - time.time())
        return item.release(started=False, after=max(1.0, self._settings.min_interval, taken))

    async def _follow(self, item: Item) -> Outcome:
        """The target of a redirect of some origin's robots.txt, unless the rules came by an earlier one meanwhile."""
        origin, url, hops, waiting = (item.payload[name] for name in ("origin", "url", "hops", "lane"))
        before = await self._origins.known(origin)
        # One that was lost with its process may be what they came by, and is not in the archive: it is asked for again.
        if isinstance(before, Known) and not item.attempts:
            return item.done(result={"known": origin}, started=False)
        answer = await self._fetch(url, item.lane, fresh=True, size=ROBOTS_SIZE)
        if answer.error == "descriptors":
            return await self._failed(item, answer)
        known = await self._heard(origin, answer, lane=item.lane, hops=hops)
        captures = [self._capture(answer, {"kind": "robots"})]
        onward: list[Item] = []
        if isinstance(known, Hop):
            where = await self._lane(known.url)
            if isinstance(where, Answer):
                known = await self._heard(origin, where, lane=item.lane, hops=known.hops)
            elif where != waiting:
                onward = [_hop_item(origin, known, where, waiting=waiting)]
        if isinstance(known, Known):
            await self._learn_pace(waiting, origin, known, seconds=None)
        if isinstance(before, Hop) and not self._shared:
            await self._go_on(waiting, before, known, onward=bool(onward))
        return item.done(result={"status": answer.status}, discovered=onward, output=captures)

    async def _go_on(self, lane: str, before: Hop, known: Known | Hop, *, onward: bool) -> None:
        """The lane that waited for a hop waits for the next, or goes on, also with a redirect back into it. A block
        that ends at another time than the hop is somebody else's, as for a Retry-After, and stays."""
        if await self._frontier.blocked_until(lane) != before.until:
            return
        if isinstance(known, Known):
            await self._frontier.block(lane, until=self._wait_of(known))
        else:
            await self._frontier.block(lane, until=as_datetime(known.until) if onward else 0.0)

    async def _learn_pace(self, lane: str, origin: str, known: Known, *, seconds: float | None) -> None:
        """What a robots.txt says beside its rules: how often to come, and where its sitemaps are. `lane` is that of the
        origin, which took so many seconds to answer; None: another did."""
        delay = known.robots.delay(self._settings.user_agent)
        if delay is not None:
            if seconds is None:
                await self._paces.heed(lane, delay)
            else:
                self._paces.of(lane).crawl_delay = delay
                await self._paces.answered(lane, seconds, failed=False)
        if self._settings.sitemaps and known.robots.sitemaps:
            found = [url for text in known.robots.sitemaps if (url := normalise.normalise(text)) is not None]
            items = self._links.new(found, depth=0, referrer=f"{origin}/robots.txt", kind="sitemap")
            if items:
                await self._frontier.add(items)

    # what came

    async def _settle(self, item: Item, answer: Answer) -> Outcome:
        seconds = answer.ended - answer.started
        if answer.error is not None:
            return await self._failed(item, answer)
        busy = answer.status in BUSY
        await self._paces.answered(item.lane, seconds, failed=busy or answer.status >= 500)
        pause = politeness.backoff(_tries(item), delay=self._paces.interval(item.lane))
        again = (busy or answer.status in TRANSIENT) and _tries(item) < self._settings.retries
        if busy:
            asked = _retry_after(answer)
            pause = pause if asked is None else asked
            if again or asked is not None:  # the host means all pages, also when this one is given up
                await self._paces.block(item.lane, pause)
        if again:
            self._tally.errors[f"{answer.status}"] += 1
            return item.retry(after=pause, reason=f"{answer.status}, to be tried again after {pause:.0f} s")
        self._tally.page(answer.status, len(answer.body))
        return await self._take_in(item, answer)

    async def _failed(self, item: Item, answer: Answer) -> Outcome:
        assert answer.error is not None
        if answer.error == "closed":  # which says nothing of the page: it is asked for on a new connection, next turn
            self._paces.of(item.lane).closes = True
            return item.release()
        self._tally.errors[answer.error] += 1
        if answer.error == "descriptors":
            return item.release(after=5.0)
        await self._paces.answered(item.lane, answer.ended - answer.started, failed=True)
        reason = f"{answer.error}: {answer.detail}"
        if answer.error in ("url", "private") or _tries(item) >= self._settings.retries:
            return item.dead(reason=reason)
        return item.retry(after=politeness.backoff(_tries(item), delay=self._paces.interval(item.lane)), reason=reason)

    async def _take_in(self, item: Item, answer: Answer) -> Outcome:
        """A page as it is settled: archived, listed, and what it points to discovered."""
        payload: dict[str, Any] = item.payload or {}
        depth = payload.get("depth", 0)
        digest = warc.payload_digest(answer.body)
        result: dict[str, Any] = {"status": answer.status}
        page: dict[str, Any] = {"kind": payload.get("kind", "page"), "depth": depth, "referrer": payload.get("from")}
        original = await self._seen_before(item.key, answer, digest)
        discovered: list[Any] = []
        reading: Read | None = None
        target = redirect_of(answer)
        if target is not None:
            page["redirect"] = target
            discovered = self._redirected(item, target, depth, payload, result)
        elif original is None and 200 <= answer.status < 300 and answer.body:
            reading = await self._read(item.key, answer, sitemap=payload.get("kind") == "sitemap")
            page |= {name: getattr(reading, name) for name in ("title", "canonical", "noindex", "wrong")}
            discovered = self._found(item, reading, depth)
        if original is not None:
            self._tally.duplicates += 1
            page["duplicate_of"] = original.url
        asked = (
            x_robots_tag(answer.headers.all("x-robots-tag"), self._settings.user_agent) if reading is None else reading
        )
        archived = not asked.noarchive
        record_id = warc.new_id()
        capture = self._capture(answer, page, digest=digest, record_id=record_id, original=original, archived=archived)
        facts = {}
        if archived and original is None and answer.status == 200 and answer.body and answer.truncated is None:
            facts = {DIGEST + digest: [record_id if self._settings.warc else None, item.key, answer.started]}
        self._tally.discovered += len(discovered)
        return item.done(result=result, discovered=discovered, facts=facts, output=[capture])

    async def _seen_before(self, url: str, answer: Answer, digest: str) -> Original | None:
        """The settled record that has the same body, if there is one of another URL. In a crawl that began without an
        archive it may be none, which will do as long as there is none."""
        if answer.status != 200 or not answer.body or answer.truncated is not None:
            return None
        fact = await self._lookup.fact(DIGEST + digest)
        if fact is None or fact[1] == url or (fact[0] is None and self._settings.warc):
            return None
        return Original(*fact)

    def _redirected(
        self, item: Item, target: str, depth: int, payload: dict[str, Any], result: dict[str, Any]
    ) -> list[Any]:
        """A redirect is an item of its own lane, so that pace and robots.txt hold for its target too."""
        hops = payload.get("redirects", 0) + 1
        result["redirect"] = target
        if hops > self._settings.max_redirects:
            result["refused"] = "redirects"
            self._tally.refused["redirects"] += 1
            return []
        if (reason := self._links.refuses(target, depth)) is not None:
            result["refused"] = reason
        more = {"kind": payload["kind"]} if "kind" in payload else {}
        return self._links.new([target], depth=depth, referrer=item.key, redirects=hops, **more)

    def _found(self, item: Item, reading: Read, depth: int) -> list[Any]:
        if reading.nofollow:
            self._tally.refused["nofollow"] += 1
            return []
        found = self._links.new(reading.links, depth=depth + 1, referrer=item.key)
        if self._settings.sitemaps and reading.sitemaps:
            found += self._links.new(reading.sitemaps, depth=depth, referrer=item.key, kind="sitemap")
        return found

    async def _read(self, url: str, answer: Answer, *, sitemap: bool) -> Read:
        """What counts is how long it is when unpacked: a few kilobytes may become as many megabytes."""
        limit, agent = self._settings.max_size * EXPANSION, self._settings.user_agent
        if len(answer.body) <= THREADED:
            decoded = unpacked(answer, limit=min(limit, THREADED))
            if not decoded.truncated and decoded.body[:2] != GZIP:
                return read_unpacked(url, answer, decoded, agent=agent, sitemap=sitemap)
        return await asyncio.to_thread(read, url, answer, limit=limit, agent=agent, sitemap=sitemap)

    def _capture(
        self,
        answer: Answer,
        page: dict[str, Any],
        *,
        digest: str | None = None,
        record_id: str | None = None,
        original: Original | None = None,
        archived: bool = True,
    ) -> Capture:
        """Records are packed here, since a thread for a small one costs more in being woken than in packing."""
        digest = warc.payload_digest(answer.body) if digest is None else digest
        said = {
            "url": answer.url,
            "status": answer.status,
            "time": answer.started,
            "type": answer.headers.get("content-type"),
            "size": len(answer.body),
            "digest": digest,
            **page,
            "truncated": answer.truncated,
        }
        # What there is not is left out. A depth or a size of 0 is there.
        listed = {
            name: value for name, value in said.items() if value is not None and value is not False and value != ""
        }
        if not archived or not answer.status or not self._settings.warc:
            return Capture(listed, None)
        exchange = Exchange(answer, record_id or warc.new_id(), digest, original)
        return Capture(listed, exchange if len(answer.body) > THREADED else records(exchange))


def _hop_item(origin: str, hop: Hop, lane: str, *, waiting: str) -> Item:
    """Its key is that of one redirect as it was heard once, so that whoever meets it means the same item."""
    payload = {"origin": origin, "url": hop.url, "hops": hop.hops, "lane": waiting}
    return Item(f"{KEY}{origin} {hop.url} {hop.until}", lane, TOP_PRIORITY, payload)


def _retry_after(answer: Answer) -> float | None:
    return politeness.retry_after(answer.headers.get("retry-after"), now=datetime.now(UTC))


def _tries(item: Item) -> int:
    """How often a page has failed. A process that was lost with it is no fault of its host."""
    return item.attempts - item.losses
