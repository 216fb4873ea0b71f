"""Tables that change between the runs of a scan, or while it runs."""

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from swath.scan import FileRecord, Record
from swath.scan.sources.source import ReadCounts
from swath.scan.sources.table import TableSource
from swath.scan.sources.table_comparison import TableComparison
from swath.tables.definition import TableChanged
from tests.locales import german
from tests.scan import checks
from tests.scan.comparing import WHOLE
from tests.scan.driving import scan
from tests.scan.test_tables import Database, of_kind, small  # noqa: F401  a fixture

ROWS = 1_000


@pytest.fixture(params=["postgresql", "sqlite"])
def base(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Database]:
    with of_kind(request.param, tmp_path, request) as found:
        yield found


def fill(base: Database) -> None:
    base.run(
        "CREATE TABLE items (id text NOT NULL PRIMARY KEY)",
        f"INSERT INTO items WITH RECURSIVE s (g) AS (SELECT 1 UNION ALL SELECT g + 1 FROM s WHERE g < {ROWS}) "
        "SELECT CAST(g AS text) FROM s",
    )


def rename(base: Database) -> None:
    base.run("ALTER TABLE items RENAME TO things")


def rename_column(base: Database) -> None:
    base.run("ALTER TABLE items RENAME COLUMN id TO ident")


def collate(base: Database) -> None:
    """All statements of the scan stay valid."""
    if base.kind == "postgresql":
        base.run(
            f"CREATE COLLATION german (locale = '{german()}')", "ALTER TABLE items ALTER id TYPE text COLLATE german"
        )
    else:
        base.run(
            "CREATE TABLE made (id text COLLATE nocase NOT NULL PRIMARY KEY)",
            "INSERT INTO made SELECT * FROM items",
            "DROP TABLE items",
            "ALTER TABLE made RENAME TO items",
        )


CHANGES: dict[str, tuple[Callable[[Database], None], str]] = {
    "renamed": (rename, r"does not exist any more: it was renamed to things|has no table 'items'"),
    "key column renamed": (rename_column, "has no column '?id"),
    "collation": (collate, "the collation of items.id was "),
}


def change_at(number: int, apply: Callable[[], None], monkeypatch: pytest.MonkeyPatch) -> None:
    """Let the check `remembering` change the table when it is called for this record."""
    checks.asked.clear()

    def changing(record: Record | FileRecord) -> None:
        checks.asked.append(record.key)
        if len(checks.asked) == number:
            apply()

    monkeypatch.setattr(checks, "remembering", changing)


@pytest.mark.usefixtures("small")
@pytest.mark.parametrize("change", list(CHANGES))
def test_a_change_while_it_runs_ends_it(
    base: Database,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    change: str,
) -> None:
    fill(base)
    apply, said = CHANGES[change]
    change_at(150, lambda: apply(base), monkeypatch)
    with pytest.raises(TableChanged, match=f"while the scan ran.*: .*({said}).*Start over with --fresh"):
        scan(base.table("items"), tmp_path / "out.jsonl", check="remembering", workers=1)
    assert 150 <= len(checks.asked) < ROWS, "it went on"


@pytest.mark.usefixtures("small")
def test_a_key_that_sorts_differently_is_not_resumed(
    base: Database,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    fill(base)
    out = tmp_path / "out.jsonl"
    change_at(150, lambda: collate(base), monkeypatch)
    with pytest.raises(TableChanged):
        scan(base.table("items"), out, check="remembering", workers=1)
    monkeypatch.undo()
    with pytest.raises(Exception, match=r"the collation of items.id was .*, so records may be missed.*--fresh"):
        scan(base.table("items"), out, check="remembering")


def test_a_scan_that_an_earlier_version_began_is_resumed(base: Database) -> None:
    fill(base)
    source = TableSource(base.table("items"), key=None)
    try:
        before = dict(source.snapshot())
        assert source.explain_change(before) is None
        del before["definition"]
        assert source.explain_change(before) is None
    finally:
        source.close()


def test_a_change_before_the_first_slice_is_explained(base: Database) -> None:
    fill(base)
    source = TableSource(base.table("items"), key=None)
    try:
        rename(base)
        with pytest.raises(TableChanged, match=r"does not exist any more|has no table"):
            source.measure({})
    finally:
        source.close()


def retype(base: Database, table: str, *, id: str = "bigint", n: str = "integer") -> None:
    """Give columns of a table other types. Every statement of a comparison stays valid."""
    if base.kind == "postgresql":
        base.run(f"ALTER TABLE {table} ALTER id TYPE {id}, ALTER n TYPE {n} USING n::{n}")
    else:
        base.run(
            f"CREATE TABLE made (id {id} NOT NULL PRIMARY KEY, email text, n {n})",
            f"INSERT INTO made SELECT * FROM {table}",
            f"DROP TABLE {table}",
            f"ALTER TABLE made RENAME TO {table}",
        )


def open_comparison(base: Database) -> TableComparison:
    return TableComparison(base.table("items"), base.table("others"), key=None, columns=())


@pytest.mark.parametrize("changed", ["items", "others"])
def test_a_comparison_ends_if_a_column_of_either_table_gets_another_type(base: Database, changed: str) -> None:
    for table in ("items", "others"):
        base.fill(table, range(10))
    source = open_comparison(base)
    try:
        source.snapshot()
        assert all(isinstance(step, ReadCounts) for step in source.read(WHOLE)), "they are equal"
        retype(base, changed, n="text")
        said = f"(?i)the type of {changed}.n was integer and is now text"
        with pytest.raises(TableChanged, match=said):
            list(source.read(WHOLE))
        with pytest.raises(TableChanged, match=said):
            list(source.fetch(["3"]))
    finally:
        source.close()


@pytest.mark.parametrize("changed", ["items", "others"])
def test_a_comparison_is_resumed_only_if_the_keys_of_both_tables_sort_alike(base: Database, changed: str) -> None:
    for table in ("items", "others"):
        base.fill(table, range(10))
    source = open_comparison(base)
    before = source.snapshot()
    assert source.explain_change(before) is None
    assert source.explain_change({name: before[name] for name in ("key", "columns")}) is None, "of an earlier version"
    source.close()
    retype(base, changed, id="integer")
    source = open_comparison(base)
    try:
        assert f"#{changed}.id was bigint and is now integer" in str(source.explain_change(before)).lower()
    finally:
        source.close()
