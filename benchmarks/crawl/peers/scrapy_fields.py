"""Scrapy on the site: follow all links, and take the six fields of benchmarks/crawl/fields.py from each page.

python scrapy_fields.py SEEDS AT_ONCE ITEMS.jsonl
"""

import json
import sys
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

from scrapy import Request, Spider
from scrapy.crawler import CrawlerProcess
from scrapy.http import Response

SEEDS = Path(sys.argv[1]).read_text().split()


class Site(Spider):
    name = "site"
    pages = 0

    async def start(self) -> AsyncIterator[Any]:
        for url in SEEDS:
            yield Request(url)  # as start_urls, seeds would be fetched again when they are linked to

    def parse(self, response: Response, **_: object) -> Iterator[Any]:
        Site.pages += 1
        yield {
            "title": response.css("title::text").get(),
            "heading": response.css("h1::text").get(),
            "first": response.css(".box p::text").get(),
            "link": response.urljoin(response.css("a.more::attr(href)").get()),
            "label": response.css("a.more::text").get(),
            "style": response.urljoin(response.css("link[rel=stylesheet]::attr(href)").get()),
            "url": response.url,
        }
        for href in response.css("a::attr(href)").getall():
            yield response.follow(href, self.parse)


def main() -> None:
    settings = {
        "ROBOTSTXT_OBEY": True,
        "CONCURRENT_REQUESTS": int(sys.argv[2]),
        "CONCURRENT_REQUESTS_PER_DOMAIN": int(sys.argv[2]),
        "DOWNLOAD_DELAY": 0,
        "LOG_LEVEL": "ERROR",
        "TELNETCONSOLE_ENABLED": False,
        "USER_AGENT": "bench (+https://example.com/about)",
        "FEEDS": {sys.argv[3]: {"format": "jsonlines"}},
    }
    process = CrawlerProcess(settings)
    process.crawl(Site)
    process.start()
    print(json.dumps({"pages": Site.pages}))


if __name__ == "__main__":
    main()
