# mypy: ignore-errors
"""Procrastinate over psycopg. It has no batches to fetch: a job is one round trip to take and one to finish."""

import asyncio

import procrastinate
from procrastinate.jobs import Job

DEFER_BATCH = 1_000
CONCURRENCY = 20  # jobs at once; 5 and 60 made no difference
TASK = "page"


class Contestant:
    def __init__(self, dsn: str, *, locks: bool) -> None:
        self._locks = locks
        self._done = 0
        connector = procrastinate.PsycopgConnector(conninfo=dsn, min_size=1, max_size=CONCURRENCY)
        self._app = procrastinate.App(connector=connector)
        self._task = self._app.task(name=TASK, queue="pages")(self._handle)

    async def open(self) -> None:
        await self._app.open_async()
        await self._app.schema_manager.apply_schema_async()

    async def add(self, items) -> None:
        for start in range(0, len(items), DEFER_BATCH):
            batch = items[start : start + DEFER_BATCH]
            if self._locks:  # one lock a lane, and a queueing lock so that a key waits once
                await self._app.job_manager.batch_defer_jobs_async(
                    jobs=[
                        Job(
                            queue="pages",
                            lock=link.lane,
                            queueing_lock=link.key,
                            task_name=TASK,
                            task_kwargs={"key": link.key},
                        )
                        for link in batch
                    ]
                )
            else:
                await self._task.batch_defer_async(*({"key": link.key} for link in batch))

    async def work(self, limit: float) -> int:
        worker = self._app.run_worker_async(
            wait=False, concurrency=CONCURRENCY, listen_notify=False, install_signal_handlers=False
        )
        try:
            async with asyncio.timeout(limit):
                await worker
        except TimeoutError:
            pass
        return self._done

    async def _handle(self, key: str) -> None:
        self._done += 1

    async def close(self) -> None:
        await self._app.close_async()


def contestant(at: str, variant: str) -> Contestant:
    return Contestant(at, locks=variant == "locks")
