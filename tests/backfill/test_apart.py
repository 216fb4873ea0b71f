"""With a store in another database a row may be changed twice, and what minds that is refused."""

from pathlib import Path

import pytest

from swath import UsageError
from swath.backfill.database_identity import is_same_database
from tests.backfill.driving import SERIES, backfill, counts, settings_of
from tests.tables.conftest import Database

ROWS = 1_000


@pytest.fixture
def table(a_database: Database, name: str) -> str:
    fill(a_database, name)
    return name


def fill(database: Database, name: str) -> None:
    database.do(
        f"CREATE TABLE {name} (id integer PRIMARY KEY, n integer NOT NULL DEFAULT 0, v text DEFAULT 'A')",
        f"INSERT INTO {name} (id) {SERIES.format(ROWS)} SELECT g FROM s",
    )


@pytest.fixture
def store(tmp_path: Path) -> str:
    return f"sqlite:///{tmp_path}/progress.db"


@pytest.mark.parametrize(
    "more",
    [
        {"set": "v = lower(v)"},
        {"set": "n = n + 1", "where": "n = 0"},
        {"set": "n = n + 1", "where": "id < 0"},
        {"run": "counting"},
        {"sql": "UPDATE {} SET n = n + 1 WHERE id BETWEEN :lo AND :hi"},
    ],
    ids=str,
)
async def test_what_can_be_repeated_is_done(a_database: Database, table: str, store: str, more: dict[str, str]) -> None:
    a_database.do(f"ALTER TABLE {table} ADD COLUMN own text DEFAULT '{table}'")
    given = {name: value.format(table) for name, value in more.items()}
    found = await backfill(settings_of(a_database, table, store=store, batch=100, **given))
    assert not found.job.exactly_once
    assert found.progress.complete
    assert found.progress.key is not None
    if more.get("where") == "id < 0":
        assert counts(a_database, table) == {0: ROWS}
    elif "lower" in more.get("set", ""):
        assert a_database.do(f"SELECT DISTINCT v FROM {table}") == [("a",)]
    else:
        assert counts(a_database, table) == {1: ROWS}


@pytest.mark.parametrize(
    ("set_", "where"),
    [("n = n + 1", None), ("v = v || 'a'", None), ("n = n + 1", "id > 500"), ("n = random()", "n = 0 or n <> 0")],
)
async def test_what_cannot_be_repeated_is_refused(
    a_database: Database, table: str, store: str, set_: str, where: str | None
) -> None:
    """Also where the first rows are none of those that are changed."""
    if "random" in set_ and a_database.kind == "postgresql":
        set_ = "n = random() * 1000000"
    settings = settings_of(a_database, table, store=store, set=set_, where=where)
    with pytest.raises(UsageError, match=r"--store.*--where.*--force"):
        await backfill(settings)
    assert counts(a_database, table) == {0: ROWS}
    assert a_database.do(f"SELECT DISTINCT v FROM {table}") == [("A",)]


async def test_the_user_may_insist(a_database: Database, table: str, store: str) -> None:
    found = await backfill(settings_of(a_database, table, store=store, force=True))
    assert not found.job.exactly_once
    assert counts(a_database, table) == {1: ROWS}


async def test_a_store_belongs_to_one_database(a_database: Database, table: str, store: str, tmp_path: Path) -> None:
    """A table of the same name elsewhere is another table."""
    await backfill(settings_of(a_database, table, store=store, set="v = lower(v)"))
    other = Database(f"sqlite:///{tmp_path}/other.db")
    fill(other, table)
    with pytest.raises(UsageError, match="was started with --db"):
        await backfill(settings_of(other, table, store=store, set="v = lower(v)"))


async def test_the_database_of_the_store_is_another_one_as_well(
    a_database: Database, table: str, tmp_path: Path
) -> None:
    """A table of the same name beside the frontier is not the one that was begun."""
    other = Database(f"sqlite:///{tmp_path}/other.db")
    fill(other, table)
    store = f"{other.url}?schema=progress"
    await backfill(settings_of(a_database, table, store=store, set="v = lower(v)"))
    with pytest.raises(UsageError, match="was started with --db"):
        await backfill(settings_of(other, table, store=store, set="v = lower(v)"))
    assert other.do(f"SELECT v, count(*) FROM {table} GROUP BY v") == [("A", ROWS)]


@pytest.mark.parametrize(
    ("db", "store", "same"),
    [
        ("sqlite:///a.db", "sqlite:///a.db?schema=x", True),
        ("sqlite:///a.db", "sqlite:///./a.db", True),
        ("sqlite:///a.db", "sqlite:///b.db", False),
        ("postgresql://u@h/a", "postgresql://u@h/a?schema=x", True),
        ("postgresql://u:secret@h/a", "postgres://other@h/a?schema=x", True),
        ("postgresql://u@h/a", "postgresql://u@h/b", False),
        ("postgresql://u@h/a", "postgresql://u@g/a", False),
        ("postgresql://u@h", "postgresql://u@h?schema=x", True),
        ("postgresql://u@h", "postgresql://other@h?schema=x", False),  # the database is called as the user is
        ("postgresql://u@h/a", "sqlite:///a", False),
    ],
)
def test_is_same_database(db: str, store: str, same: bool) -> None:
    assert is_same_database(db, store) is same
