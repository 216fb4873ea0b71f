"""The responses of an ordinary host: pages, files, and on some hosts a robots.txt and a sitemap."""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cached_property

from swath.testing.web import sitemap
from swath.testing.web.expectation import OUTSIDE, ROBOTS, SITEMAP, Expectation, Requirement
from swath.testing.web.host_layout import MENTIONS, HostLayout
from swath.testing.web.page import reply_encoded, reply_html
from swath.testing.web.page_generator import generate_page
from swath.testing.web.page_paths import page_number
from swath.testing.web.scripted_response import NOT_FOUND, Request, ScriptedResponse, Wait, reply
from swath.testing.web.seeded_random import SeededRandom

SITEMAP_URLS = 1000  # per sitemap; a host with more pages has a sitemap index
FILE_TYPES = {
    "text/plain; charset=utf-8": b"",
    "application/json": b"",
    "application/pdf": b"%PDF-1.4\n",
    "image/png": b"\x89PNG\r\n\x1a\n",
}

PAGE = Expectation(Requirement.MUST, "page", 200)
FILE = Expectation(Requirement.MUST, "file", 200)
ONLY_IN_SITEMAP = Expectation(Requirement.MUST, "page", 200, by_sitemap=True)


@dataclass(frozen=True)
class OrdinarySite:
    """A `Site` that answers according to its `HostLayout`."""

    layout: HostLayout

    counts_targets = False
    takes_posts = False

    @property
    def host(self) -> str:
        return self.layout.name

    def respond(self, request: Request) -> ScriptedResponse:
        number = self._find_number(request.target)
        if number is not None:
            response = self._reply_page(number, request.accept_encoding)
            latency_seconds = self.layout.plan.latency_seconds
            return replace(response, steps=(Wait(latency_seconds), *response.steps)) if latency_seconds else response
        if request.target == "/robots.txt":
            return self._reply_robots()
        if request.target in self._sitemaps:
            return self._reply_sitemap(request.target)
        if self.layout.mention_expectation(request.target) is not None:
            return reply_html(f"{self.host}{request.target}", [])
        return NOT_FOUND

    def expectation(self, target: str) -> Expectation | None:
        number = self._find_number(target)
        if number is not None:
            return self._page_expectation(number)
        if target == "/robots.txt":
            return ROBOTS
        if target in self._sitemaps:
            return SITEMAP
        return self.layout.mention_expectation(target)

    def expectations(self) -> Iterator[tuple[str, Expectation]]:
        yield "/robots.txt", ROBOTS
        for target in self._sitemaps:
            yield target, SITEMAP
        for number in range(self.layout.size):
            yield self.layout.target(number), self._page_expectation(number)
            for mention in self.layout.mentions(number):
                yield mention, MENTIONS[mention.split("/")[1]][1]
            if (outside := self.layout.outside_link(number)) is not None:
                yield outside, OUTSIDE

    def _reply_page(self, number: int, accept_encoding: str) -> ScriptedResponse:
        if self.layout.is_file(number):
            return _reply_file(self.layout, number)
        page = generate_page(self.layout, number)
        return reply_encoded(page.body(), page.content_type, accept_encoding, page.coding)

    def _find_number(self, target: str) -> int | None:
        number = page_number(self.layout.number, target)
        return number if number is not None and number < self.layout.size else None

    def _page_expectation(self, number: int) -> Expectation:
        if number >= self.layout.linked:
            return ONLY_IN_SITEMAP
        return FILE if self.layout.is_file(number) else PAGE

    def _reply_robots(self) -> ScriptedResponse:
        if self.layout.number % 4 == 1:
            return NOT_FOUND
        lines = ["User-agent: *", "Disallow: /private/", ""] if self.layout.has_rules else []
        if self.layout.has_sitemap:
            lines.append(f"Sitemap: {self.layout.plan.url(self.host, '/sitemap.xml')}")
        return reply(200, "\n".join(lines).encode(), content_type="text/plain")

    @cached_property
    def _sitemaps(self) -> tuple[str, ...]:
        if not self.layout.has_sitemap:
            return ()
        parts = -(-self.layout.size // SITEMAP_URLS)
        if parts == 1:
            return ("/sitemap.xml",)
        return ("/sitemap.xml", *(f"/sitemap-{part}.xml{'.gz' * (part % 2)}" for part in range(parts)))

    def _reply_sitemap(self, target: str) -> ScriptedResponse:
        if target == "/sitemap.xml" and len(self._sitemaps) > 1:
            return sitemap.reply_index(self.layout.plan.url(self.host, part) for part in self._sitemaps[1:])
        first = max(self._sitemaps.index(target) - 1, 0) * SITEMAP_URLS
        numbers = range(first, min(first + SITEMAP_URLS, self.layout.size))
        listed = [number for number in numbers if number >= self.layout.linked or number % 3 == 0]
        return sitemap.reply_sitemap((self.layout.url(number) for number in listed), packed=target.endswith(".gz"))


def _reply_file(host: HostLayout, number: int) -> ScriptedResponse:
    random = SeededRandom(host.plan.seed, host.number, number, "file")
    content_type, magic = random.pick(tuple(FILE_TYPES.items()))
    # Looks like a link, but crawlers read links from HTML and feeds only.
    lure = f"<a href='/scripted/{number}'>{host.name} {number}</a>\n".encode()
    return reply(200, magic + lure + random.bytes(200).hex().encode(), content_type=content_type)
