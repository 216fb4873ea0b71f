"""Scrapy on the site, asked for as little as possible: follow all links, keep nothing.

python scrapy_crawl.py SEEDS AT_ONCE [JOBDIR]
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
    }
    if sys.argv[3:]:
        settings["JOBDIR"] = sys.argv[3]
    process = CrawlerProcess(settings)
    process.crawl(Site)
    process.start()
    print(json.dumps({"pages": Site.pages}))


if __name__ == "__main__":
    main()
