"""Exit codes: what a script can tell from them."""

from enum import IntEnum

from swath.core.errors import (
    LeaseLost,
    OutputConflict,
    SchemaError,
    StoreFull,
    StoreUnavailable,
    SwathError,
    UsageError,
)


class Exit(IntEnum):
    DONE = 0
    NO = 1
    USAGE = 2
    STORE = 3
    SCHEMA = 4
    LOST = 5
    INTERRUPTED = 130


MEANING = {
    Exit.DONE: "done",
    Exit.NO: "the answer is no: never added, no such lane, nothing to retry, a check that failed, a crawl, "
    "backfill or scan not over, slices given up, findings that are open",
    Exit.USAGE: "the command or its input is wrong",
    Exit.STORE: "the store cannot be reached, is busy or full: try again",
    Exit.SCHEMA: "the store has another format, or is none of swath's",
    Exit.LOST: "the work was taken over by somebody else",
    Exit.INTERRUPTED: "stopped with Ctrl-C",
}

_FAMILIES: tuple[tuple[type[SwathError], Exit], ...] = (
    (UsageError, Exit.USAGE),
    (StoreUnavailable, Exit.STORE),
    (StoreFull, Exit.STORE),
    (SchemaError, Exit.SCHEMA),
    (LeaseLost, Exit.LOST),
    (OutputConflict, Exit.LOST),
)


def exit_code(error: SwathError) -> Exit:
    return next((code for family, code in _FAMILIES if isinstance(error, family)), Exit.USAGE)
