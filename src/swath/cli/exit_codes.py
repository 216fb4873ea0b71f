"""Exit codes, which scripts can rely on."""

from enum import IntEnum

from swath import (
    LeaseLost,
    OutputConflict,
    OutputFull,
    SchemaError,
    StoreFull,
    StoreUnavailable,
    SwathError,
    UsageError,
)


class ExitCode(IntEnum):
    OK = 0
    NEGATIVE = 1
    USAGE = 2
    STORE = 3
    SCHEMA = 4
    TAKEN_OVER = 5
    INTERRUPTED = 130


MEANINGS = {
    ExitCode.OK: "success",
    ExitCode.NEGATIVE: "the answer is negative: a key that was never added, a lane that does not exist, nothing to "
    "retry or to drop, a failed check, pages that failed, dead slices, open findings, or a crawl, backfill or scan "
    "that is not finished",
    ExitCode.USAGE: "the command or its input is wrong",
    ExitCode.STORE: "the store is unreachable, busy or full, or the disk of the output is full: try again",
    ExitCode.SCHEMA: "the store has another format, or is not a swath store",
    ExitCode.TAKEN_OVER: "another process has taken over the work",
    ExitCode.INTERRUPTED: "stopped with Ctrl-C or SIGTERM",
}

_CODES: tuple[tuple[type[SwathError], ExitCode], ...] = (
    (UsageError, ExitCode.USAGE),
    (StoreUnavailable, ExitCode.STORE),
    (StoreFull, ExitCode.STORE),
    (OutputFull, ExitCode.STORE),
    (SchemaError, ExitCode.SCHEMA),
    (LeaseLost, ExitCode.TAKEN_OVER),
    (OutputConflict, ExitCode.TAKEN_OVER),
)


def get_exit_code(error: SwathError) -> ExitCode:
    """Return the exit code for an error; one without a code of its own counts as wrong usage."""
    return next((code for family, code in _CODES if isinstance(error, family)), ExitCode.USAGE)
