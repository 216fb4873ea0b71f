"""What the user writes, as the statement of a slice."""

import pytest

from swath import UsageError
from swath.backfill.statement import build_sql_statement, check_key_unchanged, check_set, check_sql
from swath.tables.postgres import PostgresTable
from swath.tables.sqlite import SqliteTable
from swath.tables.table import Column, Description


def postgres_table(*names: str) -> PostgresTable:
    table = PostgresTable("", "", connections=1)
    key = tuple(Column(name, "bigint") for name in names)
    table.description = Description("t", '"t"', key, key)
    return table


LO, HI = "CAST(%s AS bigint)", "CAST(%s AS bigint)"


@pytest.mark.parametrize(
    ("sql", "expected", "values"),
    [
        ("id between :lo and :hi", f"id between {LO} and {HI}", ("1", "9")),
        ("id >= :lo and id <= :hi and id <> :lo", f"id >= {LO} and id <= {HI} and id <> {LO}", ("1", "9", "1")),
        ("':lo' || :lo || \"a:hi\" :hi", f"':lo' || {LO} || \"a:hi\" {HI}", ("1", "9")),
        ("'it''s :lo' :lo :hi", f"'it''s :lo' {LO} {HI}", ("1", "9")),
        (r"E'it\'s :lo' :lo :hi", rf"E'it\'s :lo' {LO} {HI}", ("1", "9")),
        ("$$ :lo $$ $a$ :hi $$ :lo $a$ :lo :hi", f"$$ :lo $$ $a$ :hi $$ :lo $a$ {LO} {HI}", ("1", "9")),
        ("-- :lo\n:lo /* :hi \n */ :hi", f"-- :lo\n{LO} /* :hi \n */ {HI}", ("1", "9")),
        ("/* a /* b */ :lo */ :lo :hi", f"/* a /* b */ :lo */ {LO} {HI}", ("1", "9")),
        ("a::hi, :lo::text, :hi::lo", f"a::hi, {LO}::text, {HI}::lo", ("1", "9")),
        (":lo :hi :low :high x:lot", f"{LO} {HI} :low :high x:lot", ("1", "9")),
        ("a % 2 = 0 and b like '%s' :lo:hi", f"a %% 2 = 0 and b like '%%s' {LO}{HI}", ("1", "9")),
        ("x = 'unfinished :lo :hi", f"x = 'unfinished {LO} {HI}", ("1", "9")),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_placeholders(sql: str, expected: str, values: tuple[str, ...]) -> None:
    check_sql(sql)
    found = build_sql_statement(postgres_table("id"), sql, lo=("1",), hi=("9",))
    assert found == (expected, values)


def test_a_key_of_several_columns_is_a_list() -> None:
    found = build_sql_statement(
        postgres_table("a", "b"), "(a, b) >= (:lo) and (a, b) <= (:hi)", lo=("1", "2"), hi=("8", "9")
    )
    assert found == (f"(a, b) >= ({LO}, {LO}) and (a, b) <= ({HI}, {HI})", ("1", "2", "8", "9"))


async def test_sqlite_has_question_marks_and_plain_percent_signs(tmp_path: object) -> None:
    import sqlite3

    with sqlite3.connect(f"{tmp_path}/a.db") as connection:
        connection.execute("CREATE TABLE t (id INTEGER PRIMARY KEY)")
    connection.close()
    table = await SqliteTable.open(f"{tmp_path}/a.db", "t", key=None)
    found = build_sql_statement(table, "x % 2 = 1 and id between :lo and :hi", lo=(1,), hi=(9,))
    await table.close()
    assert found == ("x % 2 = 1 and id between ? and ?", (1, 9))


@pytest.mark.parametrize(
    ("sql", "missing"),
    [
        ("update t set a = 1", "lacks :lo and :hi"),
        ("update t set a = 1 where id > :lo", "lacks :hi"),
        ("update t set a = 1 where id > :lo -- :hi", "lacks :hi"),
        ("update t set a = ':lo' where id <= :hi", "lacks :lo"),
        ("update t set a = b::lo where id <= :hi", "lacks :lo"),
    ],
)
def test_both_ends_have_to_be_in_it(sql: str, missing: str) -> None:
    with pytest.raises(UsageError, match=missing):
        check_sql(sql)


def test_a_set_that_sets_nothing() -> None:
    with pytest.raises(UsageError, match="is not an assignment"):
        check_set("lower(email)")


@pytest.mark.parametrize(
    "changes",
    [
        "id = id + 1",
        "n = 1, ID=2",
        'n = f(a, b), "id" = 2',
        "(n, id) = (1, 2)",
        "n = ',' , ( id , n ) = (select 1, 2)",
        "[id] = 1",
        "tags = array[1, 2], b = 3",
        "n = 1, -- and so on,\n id = 2",
        "/* all */ id = 1",
    ],
)
def test_the_key_is_not_set(changes: str) -> None:
    with pytest.raises(UsageError, match="part of the key of t"):
        check_key_unchanged(postgres_table("id", "b"), changes)


@pytest.mark.parametrize(
    "changes",
    [
        "n = id",
        "n = (id = 3)",
        "n = f(a, id = 3)",
        "n = ', id = 1'",
        "n = 1 -- , id = 2",
        "n = 1, -- id = 2\n m = 3",
        "n = 1, /* id = 2 */ m = 3",
        "ids = 1, nid = id",
        "n = id = 3",
    ],
)
def test_the_key_is_read(changes: str) -> None:
    check_key_unchanged(postgres_table("id"), changes)
