"""Where each problem of a PostgreSQL store begins, and what is said of it."""

from swath.backends.postgres.examine import (
    LONG_SECONDS,
    OpenTransaction,
    TableVacuum,
    check_autovacuum,
    check_privileges,
    check_transactions,
)

GOOD = TableVacuum("item", 10.0, 0, enabled=True, server_enabled=True, starts_at=50.0)


def test_autovacuum_that_is_off() -> None:
    off = [GOOD._replace(table=name, enabled=False) for name in "abcde"]
    assert not list(check_autovacuum([GOOD, GOOD], "s"))
    (problem,) = check_autovacuum([GOOD, *off[:3]], "s")
    assert problem.text == "autovacuum is off for a, b, c, so dead rows stay there and claims get slower"
    assert problem.advice == "run ALTER TABLE s.a RESET (autovacuum_enabled), likewise for others"
    (problem,) = check_autovacuum(off, "s")
    assert problem.text.startswith("autovacuum is off for a, b, c and 2 more, so")
    (problem,) = check_autovacuum([GOOD, *off, GOOD._replace(server_enabled=False)], "s")
    assert problem.text.startswith("autovacuum is off for the whole server")


def test_autovacuum_that_is_behind() -> None:
    few = GOOD._replace(dead_rows=100_000)
    slow = GOOD._replace(dead_rows=200_000, starts_at=40_000.0)
    assert not list(check_autovacuum([few, slow], "s"))
    (problem,) = check_autovacuum([few._replace(dead_rows=100_001)], "s")
    assert problem.text == "item has 100,001 dead rows, and autovacuum should have started at 50"
    worse = slow._replace(table="dead", dead_rows=200_001)
    (problem,) = check_autovacuum([few._replace(dead_rows=100_001), worse], "s")
    assert problem.text == "dead has 200,001 dead rows, and autovacuum should have started at 40,000"
    assert "run VACUUM s.dead;" in problem.advice


def test_transactions_that_are_open_for_long() -> None:
    short, long, longer = (OpenTransaction(f"process {n}", LONG_SECONDS + n) for n in (0, 1, 2_000))
    assert not list(check_transactions([short]))
    (problem,) = check_transactions([short, long])
    assert problem.text.startswith(
        "1 transaction is open for more than 600 s. The oldest is that of process 1, for 601 s."
    )
    (problem,) = check_transactions([long, longer, short])
    assert problem.text.startswith(
        "2 transactions are open for more than 600 s. The oldest is that of process 2000, for 2,600 s."
    )


def test_privileges() -> None:
    assert not list(check_privileges([], "r"))
    (problem,) = check_privileges(["USAGE ON SCHEMA s", "SELECT ON t"], "r")
    assert problem.text == "the role r lacks USAGE ON SCHEMA s, SELECT ON t"
    assert problem.advice.endswith("run GRANT USAGE ON SCHEMA s TO r; GRANT SELECT ON t TO r")
