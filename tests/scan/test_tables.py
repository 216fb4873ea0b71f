"""Tables looked at and compared, in PostgreSQL and SQLite."""

import random
import secrets
import sqlite3
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import psycopg
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from swath import Item, StoreUnavailable, UsageError
from swath.scan import Record, handler
from swath.scan.sources import slice_plan, sync_table, table, table_comparison
from swath.scan.sources.row_dicts import make_row_builder
from swath.scan.sources.row_keys import format_row_key, parse_row_key
from tests.conftest import Server, StartPostgres, fresh_database
from tests.locales import german
from tests.postgres_server import installations
from tests.scan import checks
from tests.scan.driving import Scanned, scan, settings_of


class Database:
    """A database of either kind."""

    def __init__(self, kind: str, url: str) -> None:
        self.kind = kind
        self.url = url

    def run(self, *statements: str) -> None:
        if self.kind == "sqlite":
            connection = sqlite3.connect(self.url.removeprefix("sqlite:///"))
            for statement in statements:
                connection.execute(statement)
            connection.commit()
            connection.close()
        else:
            with psycopg.connect(self.url) as postgres:
                for statement in statements:
                    postgres.execute(statement.encode())

    def fill(self, name: str, rows: range, *, where: str = "true") -> None:
        """A table of users with the numbers of a range."""
        self.run(
            f"CREATE TABLE IF NOT EXISTS {name} (id bigint NOT NULL PRIMARY KEY, email text, n integer)",
            f"INSERT INTO {name} SELECT id, 'u' || id || '@x.org', id % 7 "
            f"FROM ({self._series(rows)}) AS s WHERE {where}",
        )

    def _series(self, rows: range) -> str:
        if self.kind == "postgresql":
            return f"SELECT id FROM generate_series({rows.start}, {rows.stop - 1}, {rows.step}) AS id"
        return (
            f"WITH RECURSIVE s(id) AS (SELECT {rows.start} UNION ALL SELECT id + {rows.step} FROM s "
            f"WHERE id + {rows.step} < {rows.stop}) SELECT id FROM s"
        )

    def table(self, name: str) -> str:
        return f"{self.url}#{name}"


@pytest.fixture(params=["postgresql", "sqlite"])
def base(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Database]:
    with of_kind(request.param, tmp_path, request) as found:
        yield found


@contextmanager
def of_kind(kind: str, tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[Database]:
    if kind == "sqlite":
        yield Database(kind, f"sqlite:///{tmp_path}/data.db")
    else:
        server: Server = request.getfixturevalue("postgres")
        with fresh_database(server) as url:
            yield Database(kind, url)


@pytest.fixture
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    """Slices so small that there are many."""
    monkeypatch.setattr(table, "FIRST_SLICE", 100)
    monkeypatch.setattr(table, "LARGEST", 100)
    monkeypatch.setattr(table, "MAX_READ", 30)
    monkeypatch.setattr(sync_table, "MAX_READ", 30)
    monkeypatch.setattr(slice_plan, "MAX_SLICES", 3)
    monkeypatch.setattr(table_comparison, "MAX_ROWS", 400)
    monkeypatch.setattr(table_comparison, "MAX_FETCHED", 20)


@pytest.mark.usefixtures("small")
def test_every_row_is_looked_at_once_and_mended(base: Database, tmp_path: Path) -> None:
    base.fill("users", range(-500, 3_000, 3))
    base.run("UPDATE users SET email = upper(email) WHERE id % 100 = 1")
    source, out = base.table("users"), tmp_path / "out.jsonl"
    found = scan(source, out, check="lower")
    assert found.proof.counts.records == len(range(-500, 3_000, 3))
    assert found.proof.status.done > 10
    keys = found.keys("upper-case")
    assert keys == {str(number) for number in range(1, 3_000, 100) if number in range(-500, 3_000, 3)}
    mended = scan(source, out, check="lower", fix="lower_it", recheck=True)
    assert (mended.code, mended.proof.clean) == (0, True)
    assert mended.proof.counts.fixed == {"upper-case": len(keys)}


@pytest.mark.usefixtures("small")
def test_rows_that_come_while_it_runs_are_looked_at_where_they_belong(
    base: Database, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """There are no gaps between slices, and the last one has no end."""
    base.fill("users", range(0, 2_000, 2))
    checks.asked.clear()

    def inserting(record: Record) -> None:
        if not checks.asked:
            base.run("INSERT INTO users VALUES (801, 'new', 1), (1999, 'new', 1), (99999, 'new', 1)")
            base.run("DELETE FROM users WHERE id = 900")
        checks.asked.append(record.key)

    monkeypatch.setattr(checks, "remembering", inserting)
    found = scan(base.table("users"), tmp_path / "out.jsonl", check="remembering", workers=1)
    expected = {*map(str, range(0, 2_000, 2)), "801", "1999", "99999"} - {"900"}
    assert sorted(checks.asked) == sorted(expected)
    assert found.proof.counts.records == len(expected)


@pytest.mark.parametrize(
    "names",
    [(), ("id",), ("a b", "it's", '"', "\\", "f1", "{}", "\n", "lambda", "\udc80"), tuple(map(str, range(1_600)))],
    ids=["none", "one", "strange", "many"],
)
def test_rows_as_dicts(names: tuple[str, ...]) -> None:
    rows = [tuple(range(start, start + len(names))) for start in range(3)]
    assert make_row_builder(names)(rows) == [dict(zip(names, row, strict=True)) for row in rows]


@pytest.mark.usefixtures("small")
def test_the_next_step_of_a_plan_is_among_its_slices(base: Database, tmp_path: Path) -> None:
    """So that it is settled before they are all looked at, and nobody waits for it."""
    base.fill("users", range(1_000))
    rows = table.TableSource(base.table("users"), key=None)
    first = [item.key for item in rows.read({"plan": 1, "after": None}) if isinstance(item, Item)]
    last = [
        item.key
        for item in rows.read({"plan": 4, "after": ["899"] if base.kind == "postgresql" else [899]})
        if isinstance(item, Item)
    ]
    rows.close()
    assert first == ["slice 1.1", "plan 2", "slice 1.2", "slice 1.3"]
    assert last == ["slice 4.1", "slice 4.2"]


def test_composite_and_text_keys(base: Database, tmp_path: Path) -> None:
    base.run(
        "CREATE TABLE parts (tenant int NOT NULL, name varchar(40) NOT NULL, n int, PRIMARY KEY (tenant, name))",
        "INSERT INTO parts VALUES (1, 'a', 1), (1, 'ä', 2), (2, 'it''s \"1\"', 3), (10, '', 5)",
        "CREATE TABLE words (word varchar(40) NOT NULL PRIMARY KEY, n integer)",
        "INSERT INTO words VALUES ('plain', 1), ('17', 3), ('[\"x\"]', 5), ('', 7)",
    )
    parts = scan(base.table("parts"), tmp_path / "parts.jsonl", check="odd")
    assert len(parts.keys("odd")) == 3
    assert "2, " in max(parts.keys("odd")) or '"2"' in max(parts.keys("odd"))
    words = scan(base.table("words"), tmp_path / "words.jsonl", check="odd")
    assert len(words.keys("odd")) == 4
    assert "plain" in words.keys("odd")
    for name in ("parts", "words"):
        again = scan(base.table(name), tmp_path / f"{name}.jsonl", check="odd", recheck=True)
        assert [finding["state"] for finding in again.findings] == ["open"] * len(again.findings)
        assert len(again.findings) == 2 * again.proof.open.total()


values = st.one_of(st.integers(-5, 5), st.text(max_size=5), st.sampled_from(["1", "null", "[1]", '"a"', "1.5"]))


@settings(max_examples=50)
@given(st.lists(values, min_size=1, max_size=2))
def test_keys_of_rows_lead_back(key: list[Any]) -> None:
    text = format_row_key(tuple(key), "sqlite")
    assert parse_row_key(text, "sqlite", columns=len(key)) == tuple(key)
    texts = tuple(map(str, key))
    assert parse_row_key(format_row_key(texts, "postgresql"), "postgresql", columns=len(key)) == texts


@pytest.mark.parametrize(
    ("source", "said"),
    [
        ("{url}", "does not name a table. Append it after a #"),
        ("{url}#usres", "Did you mean users?"),
        ("{url}#keyless", "has no primary key"),
        ("{url}#looking", "is a view"),
    ],
)
def test_tables_that_cannot_be_scanned(base: Database, tmp_path: Path, source: str, said: str) -> None:
    base.fill("users", range(3))
    base.run("CREATE TABLE keyless (n integer)", "CREATE VIEW looking AS SELECT * FROM users")
    with pytest.raises(UsageError) as raised:
        scan(source.format(url=base.url), tmp_path / "out.jsonl", check="odd")
    assert said in str(raised.value)
    assert not (tmp_path / "out.jsonl").exists()


def test_keys_of_arrays_are_as_the_database_writes_them(database: str, tmp_path: Path) -> None:
    with psycopg.connect(database) as postgres:
        postgres.execute("CREATE TABLE t (id varchar(9)[] PRIMARY KEY, n integer)")
        postgres.execute("INSERT INTO t VALUES ('{a,b}', 1), ('{c}', 2)")
    found = scan(f"{database}#t", tmp_path / "out.jsonl", check="odd")
    assert found.keys("odd") == {"{a,b}"}


def test_a_password_is_kept_to_itself(tmp_path: Path) -> None:
    told = settings_of("postgresql://me:secret@host/db?password=secret#users", tmp_path / "out.jsonl", check="odd")
    assert "secret" not in str(told.get_identity())


def test_a_database_that_is_away_is_waited_for(base: Database, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    base.fill("users", range(10))
    monkeypatch.setattr(handler, "UNAVAILABLE_SECONDS", 0.01)
    monkeypatch.setattr("swath.scan.workspace.MAX_ATTEMPTS", 1)
    ends, away = sync_table.SyncTable.find_slice_end, [StoreUnavailable("it restarts"), StoreUnavailable("it restarts")]

    def end(self: sync_table.SyncTable, limit: int, *, after: Any) -> Any:
        if away:
            raise away.pop()
        return ends(self, limit, after=after)

    monkeypatch.setattr(sync_table.SyncTable, "find_slice_end", end)
    found = scan(base.table("users"), tmp_path / "out.jsonl", check="odd")
    assert (found.proof.counts.records, found.proof.status.dead, away) == (10, 0, [])


def test_a_server_that_restarts_under_a_scan_is_waited_for(
    start_postgres: StartPostgres, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its connections break while rows are read and planned; every row is still checked, and no slice is dead."""
    monkeypatch.setattr(handler, "UNAVAILABLE_SECONDS", 0.2)
    monkeypatch.setattr("swath.scan.workspace.MAX_ATTEMPTS", 1)
    monkeypatch.setattr(table, "FIRST_SLICE", 100)
    monkeypatch.setattr(table, "LARGEST", 100)
    monkeypatch.setattr(table, "MAX_READ", 30)
    monkeypatch.setattr(sync_table, "MAX_READ", 30)
    checks.asked.clear()
    server = start_postgres()
    base = Database("postgresql", server.dsn())
    base.fill("users", range(3_000))

    def restarting(record: Record) -> None:
        checks.asked.append(record.key)
        if len(checks.asked) in (50, 1_500):
            server.stop("immediate")
            server.start()

    monkeypatch.setattr(checks, "remembering", restarting)
    found = scan(base.table("users"), tmp_path / "out.jsonl", check="remembering", workers=2)
    assert set(checks.asked) == set(map(str, range(3_000)))
    assert (found.code, found.proof.counts.records, found.proof.status.dead) == (0, 3_000, 0)


def test_a_frontier_in_postgresql(database: str, tmp_path: Path) -> None:
    base = Database("postgresql", database)
    base.fill("users", range(500))
    store = f"{database}?schema=scanning" if "?" not in database else f"{database}&schema=scanning"
    first, second = (
        scan(base.table("users"), tmp_path / out, check="odd", store=store) for out in ("one.jsonl", "two.jsonl")
    )
    assert first.proof.open == second.proof.open == {"odd": 214}
    assert (len(first.findings), second.findings) == (214, [])  # the first has found it all
    again = scan(base.table("users"), tmp_path / "one.jsonl", check="odd", store=store, recheck=True)
    assert (again.proof.open, len(again.findings)) == ({"odd": 214}, 428)


# comparing


def compare(base: Database, tmp_path: Path, *, other: Database | None = None, **more: Any) -> Scanned:
    there = (other or base).table("there")
    return scan(base.table("here"), tmp_path / "compared.jsonl", against=there, **more)


@pytest.mark.usefixtures("small")
def test_equal_tables_are_a_proof(base: Database, tmp_path: Path) -> None:
    for name in ("here", "there"):
        base.fill(name, range(0, 9_000, 3))
    found = compare(base, tmp_path)
    assert (found.code, found.findings) == (0, [])
    assert found.proof.counts.records == 3_000
    assert not found.proof.status.lag


@pytest.mark.usefixtures("small")
def test_every_difference_is_found_and_nothing_else(base: Database, tmp_path: Path) -> None:
    """In gaps, beyond both ends, and in ranges that only one side has."""
    chance = random.Random(7)
    base.fill("here", range(1_000, 5_000, 2))
    base.fill("there", range(1_000, 5_000, 2))
    gone = set(chance.sample(range(1_000, 5_000, 2), 30)) | set(range(2_000, 2_800, 2))
    extra = set(chance.sample(range(1_001, 5_000, 2), 20)) | {-5, 0, 999, 5_001, 99_999} | set(range(6_000, 7_000))
    changed = set(chance.sample(sorted(set(range(1_000, 5_000, 2)) - gone), 25))
    base.run(f"DELETE FROM there WHERE id IN ({', '.join(map(str, gone))})")
    single = ", ".join(f"({number}, 'new', 0)" for number in extra - set(range(6_000, 7_000)))
    base.run(f"INSERT INTO there VALUES {single}")
    base.fill("there", range(6_000, 7_000))
    base.run(f"UPDATE there SET email = NULL WHERE id IN ({', '.join(map(str, changed))})")
    found = compare(base, tmp_path, key="id")
    assert {int(key) for key in found.keys("missing-there")} == gone
    assert {int(key) for key in found.keys("missing-here")} == extra
    assert {int(key) for key in found.keys("different")} == changed
    assert len(found.findings) == len(gone) + len(extra) + len(changed)
    assert found.proof.counts.records == len(set(range(1_000, 5_000, 2)) | extra)
    one = next(finding for finding in found.findings if finding["code"] == "different")
    assert one["data"]["columns"] == {"email": [f"u{one['key']}@x.org", None]}
    base.run("DELETE FROM there", "INSERT INTO there SELECT * FROM here")
    again = compare(base, tmp_path, key="id", recheck=True)
    assert (again.code, again.proof.open) == (0, {})


def test_an_empty_table_and_a_full_one(base: Database, tmp_path: Path) -> None:
    base.fill("here", range(10), where="id < 0")
    base.fill("there", range(10))
    assert compare(base, tmp_path).codes == {"missing-here": 10}


@pytest.mark.usefixtures("small")
def test_slices_are_bounded_on_both_sides(base: Database, tmp_path: Path) -> None:
    """Whatever one side is missing, no slice of the other has more than its share of rows."""
    base.fill("here", range(0, 20_000, 20))
    base.fill("there", range(0, 20_000, 5))
    found = compare(base, tmp_path)
    assert found.codes == {"missing-here": 3_000}
    assert found.proof.status.done >= 4_000 / 400


def test_columns_can_be_chosen(base: Database, tmp_path: Path) -> None:
    for name in ("here", "there"):
        base.fill(name, range(10))
    base.run("ALTER TABLE there ADD COLUMN more integer", "UPDATE there SET n = 99 WHERE id = 3")
    with pytest.raises(UsageError, match=r"have different columns: more is only in one"):
        compare(base, tmp_path)
    with pytest.raises(UsageError, match="has no column emial"):
        compare(base, tmp_path, columns=("emial",))
    assert compare(base, tmp_path, columns=("email",)).code == 0


def test_tables_of_two_kinds_of_database(tmp_path: Path, request: pytest.FixtureRequest) -> None:
    with of_kind("sqlite", tmp_path, request) as lite, of_kind("postgresql", tmp_path, request) as postgres:
        lite.fill("here", range(0, 3_000, 2))
        postgres.fill("there", range(0, 3_000, 2))
        postgres.run("DELETE FROM there WHERE id = 500", "UPDATE there SET n = 99 WHERE id = 700")
        postgres.run("INSERT INTO there VALUES (701, 'new', 1)")
        found = compare(lite, tmp_path, other=postgres)
        assert {(finding["key"], finding["code"]) for finding in found.findings} == {
            ("500", "missing-there"),
            ("700", "different"),
            ("701", "missing-here"),
        }
        again = compare(lite, tmp_path, other=postgres, recheck=True)
        assert len(again.findings) == 6


def test_keys_that_are_ordered_differently_are_refused(tmp_path: Path, request: pytest.FixtureRequest) -> None:
    with of_kind("postgresql", tmp_path, request) as base:
        base.run(
            'CREATE TABLE here (name text COLLATE "C" PRIMARY KEY)',
            'CREATE COLLATION other (provider = libc, locale = "C.UTF-8")',
            'CREATE TABLE there (name text COLLATE "other" PRIMARY KEY)',
        )
        with pytest.raises(UsageError, match="are ordered by bytes and"):
            compare(base, tmp_path)
        base.run("CREATE TABLE numbers (name integer PRIMARY KEY)")
        with pytest.raises(UsageError, match="are text and integer"):
            scan(base.table("here"), tmp_path / "out.jsonl", against=base.table("numbers"), key="name")


@pytest.mark.parametrize("major", [major for major in installations() if major >= 15])
def test_a_database_has_the_order_of_its_provider(
    tmp_path: Path, postgres_of: Callable[[int | None], Server], major: int
) -> None:
    """Where that is not the C library, LC_COLLATE says nothing: ICU with C orders words, and what is built in bytes."""
    server = postgres_of(major)
    other, german_name = f"swath_test_{secrets.token_hex(6)}", german()
    built_in = f"LOCALE_PROVIDER builtin BUILTIN_LOCALE 'C.UTF-8' LC_COLLATE '{german_name}' LC_CTYPE '{german_name}'"
    provided = built_in if major >= 17 else "LOCALE_PROVIDER icu ICU_LOCALE 'en-US' LC_COLLATE 'C' LC_CTYPE 'C'"
    with psycopg.connect(server.dsn(), autocommit=True) as connection, fresh_database(server) as here:
        connection.execute(f"CREATE DATABASE {other} TEMPLATE template0 ENCODING 'UTF8' {provided}".encode())
        try:
            for url in (here, server.dsn(other)):
                Database("postgresql", url).run(
                    "CREATE TABLE words (word text PRIMARY KEY)",
                    "INSERT INTO words SELECT chr(65 + g % 2 * 32) || g FROM generate_series(1, 1000) AS g",
                )
            names = f"{here}#words", f"{server.dsn(other)}#words"
            if major >= 17:
                assert scan(names[0], tmp_path / "out.jsonl", against=names[1]).proof.clean
            else:
                with pytest.raises(UsageError, match="are ordered by bytes and en-US"):
                    scan(names[0], tmp_path / "out.jsonl", against=names[1])
        finally:
            connection.execute(f"DROP DATABASE {other} WITH (FORCE)".encode())


def test_only_things_of_a_kind_are_compared(tmp_path: Path) -> None:
    for against in ("sqlite:///x.db#t", "records.jsonl"):
        with pytest.raises(UsageError, match="compares two tables or two trees"):
            scan(tmp_path, tmp_path / "out.jsonl", against=against)
