"""The site that all crawlers crawl: static files, identical on any machine for the same number of pages.

A host is a loopback address, so that no crawler needs a resolver. Page 0 of each host is its front page and a seed. The
pages of a host form a tree in which each page links to three others; the remaining links are random.
"""

import random
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

LINKS = 60
ELSEWHERE = 20  # of them are absolute URLs of other hosts
BRANCHES = 3
MIN_BYTES = 25_000
MAX_BYTES = 40_000
PARAGRAPHS = 3_000  # to choose from
WORDS = 5_000
SEED = 20_261_115
ROBOTS = "User-agent: *\nDisallow: /private/\nDisallow: /*?sort=\nAllow: /\n"


@dataclass(frozen=True, slots=True)
class Site:
    """A number of pages on a number of hosts, all on one port."""

    pages: int
    hosts: int
    port: int
    scheme: str = "http"

    @property
    def each(self) -> int:
        return self.pages // self.hosts

    def seeds(self) -> list[str]:
        return [self.url(host, 0) for host in range(self.hosts)]

    def url(self, host: int, page: int) -> str:
        return f"{self.origin(host)}{path(page)}"

    def origin(self, host: int) -> str:
        return f"{self.scheme}://{address(host)}:{self.port}"

    def write(self, directory: Path) -> None:
        """Write all files, those of a host in a directory named after its address."""
        draw = random.Random(SEED)
        paragraphs = _paragraphs(draw)
        for host in range(self.hosts):
            home = directory / address(host)
            (home / "p").mkdir(parents=True)
            (home / "robots.txt").write_text(ROBOTS)
            for page in range(self.each):
                text = self._page(host, page, paragraphs, random.Random(SEED + host * self.each + page + 1))
                (home / ("index.html" if page == 0 else path(page)[1:])).write_text(text)

    def _page(self, host: int, page: int, paragraphs: Sequence[str], draw: random.Random) -> str:
        links = self._links(host, page, draw)
        size = draw.randint(MIN_BYTES, MAX_BYTES)
        text = [f"<!DOCTYPE html>\n<html lang=en><head><meta charset=utf-8><title>Page {page} of host {host}</title>"]
        text.append("<link rel=stylesheet href=/style.css></head><body><h1>")
        text.append(f"{host}, {page}</h1>\n")
        length = sum(map(len, text))
        while length < size or links:
            paragraph = draw.choice(paragraphs)
            anchors = " ".join(f'<a href="{link}" class="more">{paragraph[:20]}</a>' for link in links[:2])
            links = links[2:]
            if length >= size:
                paragraph = ""
            text.append(f'<div class="box"><p>{paragraph} {anchors}</p></div>\n')
            length += len(text[-1])
        text.append("</body></html>\n")
        return "".join(text)

    def _links(self, host: int, page: int, draw: random.Random) -> list[str]:
        """Return distinct links in random order, including those of the tree."""
        here = [one for one in range(BRANCHES * page + 1, BRANCHES * page + BRANCHES + 1) if one < self.each]
        others = [one for one in range(self.each) if one not in here and one != page]
        here += draw.sample(others, min(len(others), LINKS - ELSEWHERE - len(here)))
        links = [path(one) for one in here]
        while len(links) < LINKS:
            link = self.url(draw.randrange(self.hosts), draw.randrange(self.each))
            if link not in links:
                links.append(link)
        draw.shuffle(links)
        return links


def address(host: int) -> str:
    return f"127.1.{host // 250}.{host % 250 + 1}"


def path(page: int) -> str:
    return f"/p/{page:06d}.html" if page else "/"


def _paragraphs(draw: random.Random) -> list[str]:
    letters = "etaoinshrdlucmfwypvbgk"
    words = ["".join(draw.choices(letters, weights=range(22, 0, -1), k=draw.randint(2, 11))) for _ in range(WORDS)]
    weights = [1 / (rank + 3) for rank in range(WORDS)]
    return [" ".join(draw.choices(words, weights, k=draw.randint(60, 150))).capitalize() for _ in range(PARAGRAPHS)]
