"""Crawlee on the site, its queue in memory: follow all links, keep nothing.

python crawlee_crawl.py SEEDS AT_ONCE
"""

import asyncio
import json
import logging
import sys
from pathlib import Path

from crawlee import ConcurrencySettings
from crawlee.crawlers import ParselCrawler, ParselCrawlingContext
from crawlee.storage_clients import MemoryStorageClient


async def main(seeds: list[str]) -> None:
    at_once = int(sys.argv[2])
    pages = 0
    crawler = ParselCrawler(
        storage_client=MemoryStorageClient(),
        respect_robots_txt_file=True,
        concurrency_settings=ConcurrencySettings(
            min_concurrency=at_once, max_concurrency=at_once, desired_concurrency=at_once
        ),
        configure_logging=False,
    )

    @crawler.router.default_handler
    async def handle(context: ParselCrawlingContext) -> None:
        nonlocal pages
        pages += 1
        await context.enqueue_links(strategy="all")

    logging.disable(logging.ERROR)
    await crawler.run(seeds)
    print(json.dumps({"pages": pages}))


if __name__ == "__main__":
    asyncio.run(main(Path(sys.argv[1]).read_text().split()))
