"""The SQL of this backend with its constants filled in: the stored functions in `functions/` and `queries.sql`.

The stored functions are content-addressed. Their names end in a hash over the text of all of them, so that a process
always calls the functions that it was built with, and processes of two versions can work on one frontier as long as the
format of its tables is the same.

`{schema}` and `{schema_literal}` stay in the texts; `PostgresLocation.fill` replaces them for one frontier.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from hashlib import sha256
from importlib.resources import files

from psycopg import sql as literals

from swath.backends import sql
from swath.backends.postgres.errors import (
    ITEMS_NOT_DEAD,
    LEASE_LOST,
    NOT_HELD,
    OUTPUT_MOVED,
    WRONG_FORMAT,
    WRONG_ISOLATION,
)
from swath.core.item import DEFAULT_PRIORITY, LEVELS
from swath.core.milestones import DAY, HOUR, MINUTE, WEEK
from swath.core.store import AUDIT_KEPT, LOST_WORKER, MoveKind

PACKAGE = "swath.backends.postgres"
CHANNEL = "swath"  # for NOTIFY; the payload is the schema of the frontier
FRAGMENTS = ("lane_now", "partition_now")  # blocks of `queries.sql` that other queries use as subqueries

CONSTANTS: Mapping[str, str | int] = {
    **{kind.name: kind.value for kind in MoveKind},
    "TOP_PRIORITY": LEVELS - 1,
    "DEFAULT_PRIORITY": DEFAULT_PRIORITY,
    "RANKS": 2 * LEVELS,  # two for each priority: returned items come before fresh ones
    "LOST_WORKER": LOST_WORKER,
    "CHANNEL": CHANNEL,
    "LEASE_LOST": LEASE_LOST,
    "NOT_HELD": NOT_HELD,
    "ITEMS_NOT_DEAD": ITEMS_NOT_DEAD,
    "OUTPUT_MOVED": OUTPUT_MOVED,
    "WRONG_ISOLATION": WRONG_ISOLATION,
    "WRONG_FORMAT": WRONG_FORMAT,
    "NOTIFY_INTERVAL": 100_000,  # microseconds between two notifications of a partition
    "MINUTE": MINUTE,
    "HOUR": HOUR,
    "DAY": DAY,
    "WEEK": WEEK,
    "AUDIT_KEPT": AUDIT_KEPT,
    "INBOX_ROWS": 1_000,  # rows of an inbox that one drain reads
    "DEEP_LANE": 16,  # after this many items were taken from a lane, it stores the place of its first live item
    "MOST_LANES_PUT_OFF": 5_000,  # by one claim
    "LANES_LOOKED_AT": 500,  # lanes of a level that a claim reads at once after it moved some back
    "MOST_ITEMS_IN_REPLY": 1_000,
    "MOST_BYTES_IN_REPLY": 65_536,
}


HASH_DIGITS = 10


@dataclass(frozen=True, slots=True)
class FunctionSet:
    """The statements that create the stored functions of one version, by the name of the function without the hash."""

    hash: str
    statements: Mapping[str, str]

    @classmethod
    def build(cls, statements: Mapping[str, str]) -> "FunctionSet":
        text = "\n".join(f"{name}\n{statement}" for name, statement in sorted(statements.items()))
        digest = sha256(text.encode()).hexdigest()[:HASH_DIGITS]
        return cls(digest, {name: statement.replace("{set}", digest) for name, statement in statements.items()})

    def fill(self, statement: str) -> str:
        """Replace `{set}`, the end of the functions' names, in a statement that calls them."""
        return statement.replace("{set}", self.hash)


def load_functions() -> FunctionSet:
    """Load the stored functions of this version."""
    statements: dict[str, str] = {}
    for entry in sorted(files(PACKAGE).joinpath("functions").iterdir(), key=lambda entry: entry.name):
        for name, statement in sql.load(PACKAGE, f"functions/{entry.name}").items():
            if name in statements:
                raise ValueError(f"functions/{entry.name}: another file defines the function {name!r}, too")
            statements[name] = _fill_constants(statement)
    return FunctionSet.build(statements)


def load_queries(functions: FunctionSet) -> Mapping[str, str]:
    """Load the read-only queries by name."""
    source = sql.load(PACKAGE, "queries.sql")
    queries = {name: functions.fill(_fill_constants(query)) for name, query in source.items()}
    fragments = {name: queries.pop(name) for name in FRAGMENTS}
    for fragment, text in fragments.items():
        queries = {name: query.replace("{" + fragment + "}", text) for name, query in queries.items()}
    return queries


def _fill_constants(statement: str) -> str:
    for name, value in CONSTANTS.items():
        statement = statement.replace("{" + name + "}", literals.Literal(value).as_string(None))
    return statement


FUNCTIONS = load_functions()
QUERIES = load_queries(FUNCTIONS)
