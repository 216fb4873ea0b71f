"""Run the Crawlee spider on a shop, with its files or with a SQLite database.

python run_crawlee.py URL CONCURRENCY file|sqlite
"""

import asyncio
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent / "spiders"))

from books_crawlee import main  # type: ignore[import-not-found]
from crawlee import ConcurrencySettings
from crawlee.storage_clients import FileSystemStorageClient, SqlStorageClient
from crawlee.storage_clients._sql import SqlRequestQueueClient

# A resume waits that long for the requests of the killed process, as swath does for its lease. In Crawlee it is five
# minutes, and no setting changes it.
BLOCK_SECONDS = 3


async def run(url: str, concurrency: int, storage: str) -> None:
    settings = ConcurrencySettings(
        min_concurrency=concurrency, desired_concurrency=concurrency, max_concurrency=concurrency
    )
    if storage == "file":
        await main(url, concurrency_settings=settings, storage_client=FileSystemStorageClient())
        return
    SqlRequestQueueClient._BLOCK_REQUEST_TIME = BLOCK_SECONDS
    async with SqlStorageClient(connection_string="sqlite+aiosqlite:///crawlee.db") as client:
        await main(url, concurrency_settings=settings, storage_client=client)


if __name__ == "__main__":
    asyncio.run(run(sys.argv[1], int(sys.argv[2]), sys.argv[3]))
