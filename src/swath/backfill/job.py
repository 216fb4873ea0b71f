"""Job: one process of a backfill, from the look at the table to the last slice."""

import asyncio
import os
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any, NamedTuple
from urllib.parse import unquote, urlsplit

import swath
from swath import StoreURL
from swath.backfill import preflight, timeouts
from swath.backfill.handler import PAUSE_SECONDS, Cover
from swath.backfill.load_signals import Health
from swath.backfill.operations import Change, HandlerChange, SetChange, SqlChange
from swath.backfill.progress import Progress, about, progress
from swath.backfill.ranges import END, Step, work_of
from swath.backfill.settings import BackfillSettings
from swath.backfill.sizer import Sizer
from swath.backfill.statement import check_key
from swath.backfill.stats import Tally
from swath.backfill.tail import Follower
from swath.backfill.throttle import Governor
from swath.core.errors import StoreUnavailable, UsageError
from swath.core.item import Item, Outcome
from swath.core.redact import mask_password
from swath.frontier import Frontier
from swath.import_path import function
from swath.runner.run import Summary
from swath.runner.shutdown import Stop
from swath.tables.open import open_table
from swath.tables.table import Key, Table
from swath.worker_threads import Threads

MAX_ATTEMPTS = 5
REPORT_SECONDS = 1.0
SPARE_CONNECTIONS = 3  # beside two a worker: planning, health, trials


class Begun(NamedTuple):
    """What a backfill is about to do."""

    table: Table
    resumed: bool
    exactly_once: bool
    before: Progress


class Job:
    """A backfill in this process. Others may run the same one; none of them is special."""

    def __init__(self, settings: BackfillSettings, *, stop: Stop, say: Callable[[str], None]) -> None:
        self.settings = settings
        self.tally = Tally()
        self.sizer = Sizer(settings.batch, target=settings.target_time)
        self.progress: Progress | None = None
        self.governor: Governor | None = None
        self._stop = stop
        self._say = say
        self._handler = None if settings.run is None else function(settings.run, flag="--run")

    @asynccontextmanager
    async def open(self) -> AsyncIterator["Open"]:
        """The table, what is done to it, and the frontier, which is made if it is not there."""
        settings = self.settings
        threads = Threads()
        table = await open_table(
            settings.db,
            settings.table,
            key=settings.key,
            connections=2 * settings.workers + SPARE_CONNECTIONS,
        )
        try:
            if settings.first is not None:
                table.lower_bound = await table.parse_key(settings.first)
            yield Open(self, table, self._change(table, threads), threads)
        finally:
            threads.close()
            await table.close()

    def _change(self, table: Table, threads: Threads) -> Change:
        settings = self.settings
        if settings.set is not None:
            return SetChange(table, settings.set, settings.where)
        if settings.sql is not None:
            return SqlChange(table, settings.sql)
        assert self._handler is not None
        return HandlerChange(
            table, self._handler, settings.where, seconds=timeouts.allowed(settings.target_time), threads=threads
        )


class Open(NamedTuple):
    """A job with its table open."""

    job: Job
    table: Table
    change: Change
    threads: Threads

    @property
    def exactly_once(self) -> bool:
        return same_database(self.job.settings.db, self.job.settings.store_url)

    async def check(self) -> None:
        """What would go wrong is said before anything is made."""
        settings = self.job.settings
        if settings.set is not None:
            check_key(self.table, settings.set)
        await self.health().look(slowdown=1.0)  # whether it can be asked
        upto = await self._upto()
        first = await self.table.find_first_key(upto=upto)
        if first is None or settings.run is not None:
            return
        await preflight.check_statement(self.table, self.change, first)
        if settings.set is None or self.exactly_once or settings.force:
            return
        if not await preflight.is_repeatable(self.table, self.change, self.threads, upto=upto):
            raise UsageError(
                f"--set {settings.set!r} changes rows again when it is run again, and with a store in another database "
                "a crash may run it twice on some rows. Leave out --store, so that the frontier is beside the table "
                "and every row is changed exactly once; or add --where to tell the rows that are done; or insist with "
                "--force"
            )

    async def begin(self, frontier: Frontier) -> Begun:
        """Begin, or find what was begun before; UsageError if that was something else."""
        settings = self.job.settings
        resumed = await self.begun(frontier)
        if not resumed:
            await frontier.add(await self._first_step())
            await self.begun(frontier)  # it may be another process that was first
        if settings.follow and (end := (await frontier.facts([END])).get(END)) is not None:
            step = work_of(end)  # everything up to there was planned before, without --follow
            assert isinstance(step, Step)
            await frontier.add(step.again())
        before = await progress(frontier)
        assert before is not None
        return Begun(self.table, resumed, self.exactly_once, before)

    async def begun(self, frontier: Frontier) -> bool:
        """Whether this backfill was begun before; UsageError if something else was."""
        settings = self.job.settings
        begun = (await frontier.status()).begun  # first: another process may begin the backfill meanwhile
        known = await about(frontier)
        if known is not None:
            # By what they stand for: a name may lead to another table now, and a primary key may be another one.
            found = {"table": self.table.description.name, "key": list(self.table.description.key_names)}
            before = known["purpose"] | {"table": known["table"], "key": known["key_columns"]}
            _same(before, self._purpose() | found, frontier_at=settings.store_url)
        elif begun:
            another = "--name" if settings.store is None else "--store"
            raise UsageError(
                f"{mask_password(settings.store_url)} holds other work than a backfill: give another {another}"
            )
        return known is not None

    async def _first_step(self) -> Item:
        settings, table = self.job.settings, self.table
        upto = await self._upto()
        last = await table.find_last_key(upto=upto)
        bound = upto if upto is not None and last is not None else last
        told = {
            "purpose": self._purpose(),
            "table": table.description.name,
            "key_columns": list(table.description.key_names),
            "text_key": table.description.key[0].is_text,
            "first_key": _listed(await table.find_first_key(upto=upto)),
            "rows": await table.estimate_rows(upto=upto),
            "upto": _listed(bound),
        }
        # Who follows goes only as far as nothing can come any more, from the beginning on.
        return Step(0, None, None if settings.follow else bound, settings.batch, 0).begin(told)

    def _purpose(self) -> dict[str, Any]:
        """A frontier beside its table can be about no other one; elsewhere it has to be said which."""
        apart = {} if self.exactly_once else {"db": place(self.job.settings.db)}
        return self.job.settings.purpose() | apart

    async def _upto(self) -> Key | None:
        """`--to`, which is not before `--from`."""
        settings, table = self.job.settings, self.table
        upto = None if settings.last is None else await table.parse_key(settings.last)
        if table.lower_bound is not None and upto is not None and await table.is_after(table.lower_bound, upto):
            raise UsageError(f"--from {', '.join(settings.first or ())} is after --to {', '.join(settings.last or ())}")
        return upto

    def health(self) -> Health:
        settings = self.job.settings
        return Health(
            self.table,
            max_lag=settings.max_lag,
            lag_query=settings.lag_query,
            max_active=settings.max_active,
            pause_file=settings.pause_file,
        )

    def cover(self, *, held_up: Callable[[], str | None]) -> Cover:
        """The handler of the items."""
        return Cover(
            self.table,
            self.change,
            self.job.sizer,
            self.job.tally,
            workers=self.job.settings.workers,
            follower=Follower(self.table) if self.job.settings.follow else None,
            held_up=held_up,
        )

    async def run(self, frontier: Frontier) -> Summary:
        """Cover what is open, until all is or somebody says stop."""
        job, settings = self.job, self.job.settings
        governor = job.governor = Governor(frontier, self.health(), slowdown=lambda: job.sizer.slowdown, say=job._say)
        cover = self.cover(held_up=governor.held_up)
        begin = self.table.blocking_transaction if self.change.blocking else self.table.transaction

        async def apart(item: Item) -> Outcome:
            """At least once: what was written commits first, the settlement follows."""
            try:
                async with begin() as connection:
                    return await cover(item, connection)
            except StoreUnavailable:
                return item.release(after=PAUSE_SECONDS)

        watching = [asyncio.create_task(governor.watch()), asyncio.create_task(self._report(frontier))]
        try:
            return await frontier.run(
                cover if self.exactly_once else apart,
                workers=settings.workers,
                lease=settings.lease,
                timeout=settings.timeout,
                grace=max(10.0, 2 * settings.target_time),
                until="stopped" if settings.follow else "done",
                handle_signals=False,
                transaction=begin if self.exactly_once else None,
                stop=job._stop,
            )
        finally:
            for task in watching:
                task.cancel()
            await asyncio.gather(*watching, return_exceptions=True)

    async def _report(self, frontier: Frontier) -> None:
        while True:
            try:
                self.job.progress = await progress(frontier)
            except StoreUnavailable:
                pass  # the runner says so, and waits
            await asyncio.sleep(REPORT_SECONDS)


def opened(settings: BackfillSettings, *, create: bool = True) -> swath.Opening:
    """The frontier of a backfill. One partition: what is covered is one key."""
    if not create:
        return swath.open(settings.store_url, create=False)
    return swath.open(settings.store_url, partitions=1, max_attempts=MAX_ATTEMPTS)


def same_database(db: str, store: str) -> bool:
    """Whether a table and a frontier can be in one transaction, as far as their URLs tell."""
    return place(db) == place(store)


def place(url: str) -> str:
    """Which database a URL names."""
    parts = urlsplit(url)
    if parts.scheme == "sqlite":
        return f"sqlite {os.path.realpath(unquote(parts.path.removeprefix('/')))}"
    from psycopg.conninfo import conninfo_to_dict

    given = conninfo_to_dict(_without_schema(url))
    given["dbname"] = given.get("dbname") or given.get("user")  # as PostgreSQL has it
    names = ("host", "hostaddr", "port", "dbname", "service")
    return " ".join(["postgresql", *(f"{name}={given[name]}" for name in names if given.get(name))])


def _without_schema(url: str) -> str:
    from swath.backends.postgres.location import PostgresLocation

    return PostgresLocation.parse(url).dsn if "schema" in StoreURL.parse(url).query else url


def _same(before: dict[str, Any], now: dict[str, Any], *, frontier_at: str) -> None:
    changed = [name for name in before | now if before.get(name) != now.get(name)]
    if changed:
        said = ", ".join(f"{_flag(name)} {before.get(name)!r}" for name in changed)
        raise UsageError(
            f"the backfill at {mask_password(frontier_at)} was begun with {said}. Give the same again to go on "
            "with it, or begin another with --name"
        )


def _flag(name: str) -> str:
    return {"first": "--from", "last": "--to"}.get(name, f"--{name}")


def _listed(found: Key | None) -> list[Any] | None:
    return None if found is None else list(found)
