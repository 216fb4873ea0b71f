"""A table that changes: what is covered is a key, and means nothing if keys sort differently now."""

import json
from collections.abc import Callable
from typing import Any

import pytest

from swath.backfill import resume
from swath.backfill.job import BackfillJob, open_frontier
from swath.backfill.ranges import Slice, parse_work
from swath.backfill.settings import BackfillSettings
from swath.cli.backfill_command import BackfillCommand
from swath.tables.definition import TableChanged
from tests.backfill.driving import SERIES, backfill, counts, ready, settings_of
from tests.locales import german
from tests.tables.conftest import Database

ROWS, BATCH = 60, 5
COLUMNS = "n integer NOT NULL DEFAULT 0, other text"


def fill(database: Database, name: str, *, key: str = "id integer PRIMARY KEY") -> None:
    database.do(
        f"CREATE TABLE {name} ({key}, {COLUMNS})",
        f"INSERT INTO {name} (id) {SERIES.format(ROWS)} SELECT {'g' if 'integer' in key else 'CAST(g AS text)'} FROM s",
    )


def change_key(database: Database, name: str, key: str, alter: str) -> None:
    """Give the key another definition. SQLite can only create the table again and copy its rows."""
    if database.kind == "postgresql":
        database.do(f"ALTER TABLE {name} ALTER COLUMN id {alter}")
        return
    database.do(
        f"CREATE TABLE {name}_new ({key}, {COLUMNS})",
        f"INSERT INTO {name}_new SELECT * FROM {name}",
        f"DROP TABLE {name}",
        f"ALTER TABLE {name}_new RENAME TO {name}",
    )


def make_text(database: Database, name: str) -> None:
    change_key(database, name, "id text NOT NULL PRIMARY KEY", "TYPE text")


def make_integer(database: Database, name: str) -> None:
    change_key(database, name, "id integer PRIMARY KEY", "TYPE integer USING id::integer")


def collate(database: Database, name: str) -> None:
    """All statements of the backfill stay valid."""
    if database.kind == "postgresql":
        database.do(f"CREATE COLLATION IF NOT EXISTS german (locale = '{german()}')")
    change_key(database, name, "id text COLLATE nocase NOT NULL PRIMARY KEY", "TYPE text COLLATE german")


def collate_as_before(database: Database, name: str) -> None:
    change_key(database, name, "id text NOT NULL PRIMARY KEY", "TYPE text")


TEXT = "id text NOT NULL PRIMARY KEY"
INTEGER = "id integer PRIMARY KEY"
CHANGES: dict[str, tuple[str, Callable[[Database, str], None], Callable[[Database, str], None], str]] = {
    "integer to text": (INTEGER, make_text, make_integer, r"the type of \w+\.id was (?i:integer) and is now (?i:text)"),
    "text to integer": (TEXT, make_integer, make_text, r"the type of \w+\.id was (?i:text) and is now (?i:integer)"),
    "collation": (
        TEXT,
        collate,
        collate_as_before,
        r"the collation of \w+\.id was .* and is now (public.german \(de_DE|NOCASE)",
    ),
}


async def cover_a_part(settings: BackfillSettings) -> None:
    """Run a backfill until some slices are done and some are planned."""
    async with ready(settings) as (job, frontier, _, stop, _):
        record = job.stats.record_slice

        def record_and_stop(rows: int, changed: int, seconds: float) -> None:
            record(rows, changed, seconds)
            if job.stats.slices == 3:
                stop.request("enough")

        job.stats.record_slice = record_and_stop  # type: ignore[method-assign]
        await job.run(frontier)


def settings_for(database: Database, name: str, **more: Any) -> BackfillSettings:
    return settings_of(database, name, batch=BATCH, target_time=0.5, workers=1, **more)


@pytest.mark.parametrize("change", list(CHANGES))
async def test_a_key_that_sorts_differently_is_not_resumed(a_database: Database, name: str, change: str) -> None:
    key, apply, undo, said = CHANGES[change]
    fill(a_database, name, key=key)
    await cover_a_part(settings_for(a_database, name))
    before = counts(a_database, name)
    assert before.keys() == {0, 1}
    apply(a_database, name)
    with pytest.raises(TableChanged, match=f"{said}.*with a new --name, or resume this one with --force"):
        await backfill(settings_for(a_database, name))
    assert counts(a_database, name) == before
    undo(a_database, name)
    assert (await backfill(settings_for(a_database, name))).start.resumed
    assert counts(a_database, name) == {1: ROWS}


async def test_force_resumes_nevertheless(a_database: Database, name: str) -> None:
    """It is asked for each time: what the table was when the backfill began stays recorded."""
    fill(a_database, name)
    await cover_a_part(settings_for(a_database, name))
    change_key(a_database, name, "id bigint NOT NULL PRIMARY KEY", "TYPE bigint")
    async with ready(settings_for(a_database, name, force=True)):
        pass
    with pytest.raises(TableChanged, match=r"is now (?i:bigint)"):
        await backfill(settings_for(a_database, name))
    assert (await backfill(settings_for(a_database, name, force=True))).progress.complete
    assert counts(a_database, name) == {1: ROWS}


async def test_another_version_of_a_collation_sorts_differently(server: Database, name: str) -> None:
    fill(server, name, key="id text NOT NULL PRIMARY KEY")
    collate(server, name)
    settings = settings_for(server, name)
    await cover_a_part(settings)
    ((version,),) = server.do("SELECT pg_collation_actual_version('german'::regcollation)")
    async with open_frontier(settings) as frontier:
        recorded = json.dumps((await frontier.facts([resume.DEFINITION]))[resume.DEFINITION])
        assert version in recorded
        await frontier.learn({resume.DEFINITION: json.loads(recorded.replace(version, "the one before"))})
    with pytest.raises(TableChanged, match=r"the collation of .* the one before"):
        await backfill(settings)


async def test_a_table_that_was_created_again_is_another_one(a_database: Database, name: str) -> None:
    """SQLite has no identity of a table, and changes of a table create it again."""
    fill(a_database, name)
    await cover_a_part(settings_for(a_database, name))
    a_database.do(f"DROP TABLE {name}")
    fill(a_database, name)
    if a_database.kind == "sqlite":
        assert (await backfill(settings_for(a_database, name))).start.resumed
        return
    with pytest.raises(TableChanged, match="is another table: it was dropped and created again"):
        await backfill(settings_for(a_database, name))
    assert counts(a_database, name) == {0: ROWS}


async def test_a_database_restored_elsewhere_is_resumed(server: Database, name: str) -> None:
    """Its tables have other numbers."""
    fill(server, name)
    settings = settings_for(server, name)
    await cover_a_part(settings)
    async with open_frontier(settings) as frontier:
        recorded = (await frontier.facts([resume.DEFINITION]))[resume.DEFINITION]
        assert recorded["identity"] is not None
        elsewhere = {"database": "another", "table": "1"}
        await frontier.learn({resume.DEFINITION: {**recorded, "identity": elsewhere}})
    assert (await backfill(settings)).start.resumed
    assert counts(server, name) == {1: ROWS}


async def test_changes_that_keep_the_order_do_not_matter(a_database: Database, name: str) -> None:
    fill(a_database, name)
    await cover_a_part(settings_for(a_database, name))
    a_database.do(f"ALTER TABLE {name} ADD COLUMN more integer", f"ALTER TABLE {name} DROP COLUMN other")
    assert (await backfill(settings_for(a_database, name))).start.resumed
    assert counts(a_database, name) == {1: ROWS}


class TestBegunByAnEarlierVersion:
    """It did not record what the table was."""

    @pytest.fixture(autouse=True)
    async def earlier(self, a_database: Database, name: str, monkeypatch: pytest.MonkeyPatch) -> None:
        async def record_nothing(*_: object) -> None:
            """As the version before."""

        fill(a_database, name)
        with monkeypatch.context() as context:
            context.setattr(resume, "record_definition", record_nothing)
            await cover_a_part(settings_for(a_database, name))
        async with open_frontier(settings_for(a_database, name)) as frontier:
            assert await frontier.facts([resume.DEFINITION]) == {}

    async def test_it_is_resumed(self, a_database: Database, name: str) -> None:
        assert (await backfill(settings_for(a_database, name))).start.resumed
        assert counts(a_database, name) == {1: ROWS}

    async def test_numbers_that_became_text_are_noticed(self, a_database: Database, name: str) -> None:
        make_text(a_database, name)
        with pytest.raises(TableChanged, match=r"the key of .* was not text and is text now"):
            await backfill(settings_for(a_database, name))

    async def test_changes_since_it_was_resumed_are_noticed(self, a_database: Database, name: str) -> None:
        async with ready(settings_for(a_database, name)):
            pass
        change_key(a_database, name, "id bigint NOT NULL PRIMARY KEY", "TYPE bigint")
        with pytest.raises(TableChanged, match=r"is now (?i:bigint)"):
            await backfill(settings_for(a_database, name))


Step = Callable[[Database, str], Any]
WHILE_IT_RUNS: dict[str, tuple[Step, Step, str]] = {
    "key type": (make_integer, make_text, r"the type of \w+\.id was"),
    "key collation": (collate, collate_as_before, r"the collation of \w+\.id was"),
    "renamed": (
        lambda database, name: database.do(f"ALTER TABLE {name} RENAME TO {name}_x"),
        lambda database, name: database.do(f"ALTER TABLE {name}_x RENAME TO {name}"),
        r"does not exist any more: it was renamed to \w+_x|has no table",
    ),
    "key column renamed": (
        lambda database, name: database.do(f"ALTER TABLE {name} RENAME COLUMN id TO ident"),
        lambda database, name: database.do(f"ALTER TABLE {name} RENAME COLUMN ident TO id"),
        r"has no column '?id\b",
    ),
    "column of the statement dropped": (
        lambda database, name: database.do(f"ALTER TABLE {name} RENAME COLUMN other TO gone"),
        lambda database, name: database.do(f"ALTER TABLE {name} RENAME COLUMN gone TO other"),
        r"has no column other any more .*(does not exist|no such column)",
    ),
}


async def test_an_empty_table_in_its_place_does_not_complete_it(server: Database, name: str) -> None:
    fill(server, name)
    async with ready(settings_for(server, name)) as (job, frontier, _, _, _):
        server.do(f"DROP TABLE {name}", f"CREATE TABLE {name} (id integer PRIMARY KEY, {COLUMNS})")
        with pytest.raises(TableChanged, match=r"while the backfill ran: .* is another table"):
            await job.run(frontier)
        assert (await frontier.status()).waiting == 1


@pytest.mark.parametrize(
    ("change", "planned"), [*((change, True) for change in WHILE_IT_RUNS), ("key collation", False), ("renamed", False)]
)
async def test_a_change_while_it_runs_ends_it(a_database: Database, name: str, change: str, planned: bool) -> None:
    """Without a retry, and without a dead slice. It can be resumed when the change is undone."""
    apply, undo, said = WHILE_IT_RUNS[change]
    fill(a_database, name, key=TEXT)
    settings = settings_for(a_database, name, set="n = n + 1, other = other")
    if planned:
        await cover_a_part(settings)
    async with ready(settings) as (job, frontier, _, _, _):
        first, *_ = [parse_work(item.payload) async for item in frontier.pending()]
        assert isinstance(first, Slice) is planned
        apply(a_database, name)
        before = counts(a_database, name if change != "renamed" else f"{name}_x")
        with pytest.raises(TableChanged, match=f"while the backfill ran: .*{said}.*run the same command again"):
            await job.run(frontier)
        assert job.monitor.errors == ()
        assert [item async for item in frontier.dead()] == []
        assert {item.attempts async for item in frontier.pending()} == {0}
        assert job.stats.rows == 0
    undo(a_database, name)
    assert counts(a_database, name) == before
    assert (await backfill(settings)).start.resumed
    assert counts(a_database, name) == {1: ROWS}


@pytest.mark.parametrize("dry", [False, True], ids=["run", "dry run"])
async def test_a_change_before_the_first_slice_is_explained(
    a_database: Database, name: str, monkeypatch: pytest.MonkeyPatch, dry: bool
) -> None:
    fill(a_database, name)
    check = BackfillJob.check

    async def check_and_rename(job: BackfillJob) -> None:
        await check(job)
        a_database.do(f"ALTER TABLE {name} RENAME TO {name}_x")

    monkeypatch.setattr(BackfillJob, "check", check_and_rename)
    command = BackfillCommand(settings_for(a_database, name), json=False, quiet=True)
    with pytest.raises(TableChanged, match=r"does not exist any more|has no table"):
        await (command.dry_run() if dry else command.run())
