"""What an ordinary host answers: pages, files, perhaps a robots.txt and a sitemap."""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cached_property

from swath.testing.web import sitemap
from swath.testing.web.answer import NOT_FOUND, Answer, Ask, Wait, reply
from swath.testing.web.expectation import OUTSIDE, ROBOTS, SITEMAP, Fate, Verdict
from swath.testing.web.host import MENTIONS, Host
from swath.testing.web.page import encoded, plain_page
from swath.testing.web.page_generator import draw
from swath.testing.web.paths import number_of
from swath.testing.web.seeded_random import Chance

SITEMAP_URLS = 1000  # in one sitemap; a host with more has an index
FILE_TYPES = {
    "text/plain; charset=utf-8": b"",
    "application/json": b"",
    "application/pdf": b"%PDF-1.4\n",
    "image/png": b"\x89PNG\r\n\x1a\n",
}

PAGE = Verdict(Fate.MUST, "page", 200)
FILE = Verdict(Fate.MUST, "file", 200)
ONLY_IN_SITEMAP = Verdict(Fate.MUST, "page", 200, by_sitemap=True)


@dataclass(frozen=True)
class Ordinary:
    """A host of the `Site` protocol; its build is in `Host`."""

    build: Host

    counts_targets = False

    @property
    def host(self) -> str:
        return self.build.name

    def answer(self, ask: Ask) -> Answer:
        number = self._number(ask.target)
        if number is not None:
            answer = self._page(number, ask.accept_encoding)
            latency = self.build.plan.latency
            return replace(answer, steps=(Wait(latency), *answer.steps)) if latency else answer
        if ask.target == "/robots.txt":
            return self._robots()
        if ask.target in self._sitemaps:
            return self._sitemap(ask.target)
        if self.build.mentioned(ask.target) is not None:
            return plain_page(f"{self.host}{ask.target}", [])
        return NOT_FOUND

    def verdict(self, target: str) -> Verdict | None:
        number = self._number(target)
        if number is not None:
            return self._page_verdict(number)
        if target == "/robots.txt":
            return ROBOTS
        if target in self._sitemaps:
            return SITEMAP
        return self.build.mentioned(target)

    def verdicts(self) -> Iterator[tuple[str, Verdict]]:
        yield "/robots.txt", ROBOTS
        for target in self._sitemaps:
            yield target, SITEMAP
        for number in range(self.build.size):
            yield self.build.target(number), self._page_verdict(number)
            for mention in self.build.mentions(number):
                yield mention, MENTIONS[mention.split("/")[1]][1]
            if (outside := self.build.outside(number)) is not None:
                yield outside, OUTSIDE

    def _page(self, number: int, accept_encoding: str) -> Answer:
        if self.build.is_file(number):
            return _file(self.build, number)
        page = draw(self.build, number)
        return encoded(page.body(), page.content_type, accept_encoding, page.coding)

    def _number(self, target: str) -> int | None:
        number = number_of(self.build.number, target)
        return number if number is not None and number < self.build.size else None

    def _page_verdict(self, number: int) -> Verdict:
        if number >= self.build.linked:
            return ONLY_IN_SITEMAP
        return FILE if self.build.is_file(number) else PAGE

    def _robots(self) -> Answer:
        if self.build.number % 4 == 1:
            return NOT_FOUND
        lines = ["User-agent: *", "Disallow: /private/", ""] if self.build.has_rules else []
        if self.build.has_sitemap:
            lines.append(f"Sitemap: {self.build.plan.url(self.host, '/sitemap.xml')}")
        return reply(200, "\n".join(lines).encode(), content_type="text/plain")

    @cached_property
    def _sitemaps(self) -> tuple[str, ...]:
        if not self.build.has_sitemap:
            return ()
        parts = -(-self.build.size // SITEMAP_URLS)
        if parts == 1:
            return ("/sitemap.xml",)
        return ("/sitemap.xml", *(f"/sitemap-{part}.xml{'.gz' * (part % 2)}" for part in range(parts)))

    def _sitemap(self, target: str) -> Answer:
        if target == "/sitemap.xml" and len(self._sitemaps) > 1:
            return sitemap.index(self.build.plan.url(self.host, part) for part in self._sitemaps[1:])
        first = max(self._sitemaps.index(target) - 1, 0) * SITEMAP_URLS
        numbers = range(first, min(first + SITEMAP_URLS, self.build.size))
        listed = [number for number in numbers if number >= self.build.linked or number % 3 == 0]
        return sitemap.listing((self.build.url(number) for number in listed), packed=target.endswith(".gz"))


def _file(host: Host, number: int) -> Answer:
    chance = Chance(host.plan.seed, host.number, number, "file")
    content_type, magic = chance.pick(tuple(FILE_TYPES.items()))
    # Looks like a link and is none, for a crawl reads links only from HTML and feeds.
    lure = f"<a href='/scripted/{number}'>{host.name} {number}</a>\n".encode()
    return reply(200, magic + lure + chance.bytes(200).hex().encode(), content_type=content_type)
