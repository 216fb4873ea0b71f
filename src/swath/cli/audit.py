"""`swath audit`: list who changed the frontier."""

from collections.abc import AsyncIterator, Sequence
from typing import Annotated, Any

import typer

from swath import AuditEntry
from swath.cli.command import open_frontier, run_command
from swath.cli.formatting import format_json, format_time
from swath.cli.options import JSONOption, StoreArgument, StoreOption
from swath.cli.terminal import print_json_lines, print_note, print_rows

LIMIT = 100
KEPT = 1_000
COLUMNS = ("time", "who", "change", "lane", "items", "details")


def audit(
    argument: StoreArgument = None,
    store: StoreOption = None,
    limit: Annotated[
        int, typer.Option("--limit", "-n", min=1, max=KEPT, metavar="N", help="Maximum number of changes")
    ] = LIMIT,
    json: JSONOption = False,
) -> None:
    """List who paused, limited, dropped or re-opened what, the latest change first.

    The frontier keeps the last 1,000 changes. What jobs change on their own while they run is not among them. Without a
    terminal the output is tab-separated columns: time, who, change, lane, items, details. With --json each change is
    one line.

    Examples:
        swath audit crawl/
        swath audit --limit 10 --json
    """
    store = argument or store
    run_command(store, _list(store, limit, json))


async def _list(store: str | None, limit: int, json: bool) -> None:
    async with open_frontier(store) as frontier:
        entries = await frontier.audit(limit=limit)
    if json:
        await print_json_lines(_iterate([entry_to_json(entry) for entry in entries]))
    else:
        await print_rows(COLUMNS, _iterate([entry_to_row(entry) for entry in entries]), right=["items"])
    if not entries:
        print_note("no changes")


async def _iterate(values: Sequence[Any]) -> AsyncIterator[Any]:
    for value in values:
        yield value


def entry_to_json(entry: AuditEntry) -> dict[str, Any]:
    return {
        "time": entry.time.isoformat(),
        "who": entry.actor,
        "change": entry.action,
        "lane": entry.lane,
        "items": entry.items,
        "details": dict(entry.detail),
    }


def entry_to_row(entry: AuditEntry) -> tuple[str, ...]:
    items = "" if entry.items is None else f"{entry.items:,}"
    details = ", ".join(f"{name} {_format_value(value)}" for name, value in entry.detail.items())
    return format_time(entry.time), entry.actor, entry.action, entry.lane or "", items, details


def _format_value(value: Any) -> str:
    return value if isinstance(value, str) else format_json(value)
