"""What the user writes cannot break out of the slice that it is for."""

import pytest

from swath import UsageError
from swath.backfill.operations import FunctionOperation, Operation, SetOperation
from swath.backfill.self_deadlock import NoWatcher
from swath.backfill.settings import BackfillSettings
from swath.worker_threads import WorkerThreads
from tests.tables.conftest import Database, Open, a_database, name, opened, shared  # noqa: F401  fixtures


def handler(rows: list[dict[str, int]], connection: object) -> int:
    return len(rows)


@pytest.mark.parametrize("how", ["set", "where", "handler"])
async def test_comments(a_database: Database, name: str, opened: Open, how: str) -> None:  # noqa: F811
    """A comment at the end hides nothing of the statement."""
    a_database.do(
        f'CREATE TABLE {name} ("i""d %" integer PRIMARY KEY, n integer NOT NULL DEFAULT 0)',
        f"INSERT INTO {name} VALUES (1), (2), (3), (4)".replace(name, f'{name} ("i""d %")'),
    )
    table = await opened(a_database, name)
    threads = WorkerThreads()
    changes: dict[str, Operation] = {
        "set": SetOperation(table, "n = n + 1 -- one more", None),
        "where": SetOperation(table, "n = n + 1", "n = 0 -- not yet"),
        "handler": FunctionOperation(
            table, handler, "n = 0 -- not yet", seconds=60.0, threads=threads, watcher=NoWatcher()
        ),
    }
    second = await table.find_slice_end(2)
    assert second is not None
    try:
        async with table.blocking_transaction() if how == "handler" else table.transaction() as connection:
            assert await changes[how].apply(connection, after=None, upto=second.key) == 2
    finally:
        threads.close()


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"set": "n = 1", "where": "true) or (true"}, "--where 'true\\) or \\(true' closes a parenthesis"),
        ({"set": "n = (1"}, "does not close a parenthesis"),
        ({"set": "n = 1", "where": "'(' = n /* ) */ and (true"}, "does not close"),
    ],
    ids=["closed", "open", "quoted"],
)
def test_parentheses(given: dict[str, str], said: str) -> None:
    with pytest.raises(UsageError, match=said):
        BackfillSettings("sqlite:///a.db", "t", **given)  # type: ignore[arg-type]


def test_parentheses_in_quotes_do_not_count() -> None:
    BackfillSettings("sqlite:///a.db", "t", set="v = ')' || \"(\" || f(n)", where="$$($$ <> v -- (")
