"""Check that a frontier holds this backfill, and that its table is what it was when the backfill began."""

from collections.abc import Mapping
from typing import Any

from swath import Frontier, UsageError, mask_password
from swath.backfill.progress import read_description, read_progress
from swath.backfill.settings import BackfillSettings
from swath.tables.definition import TableChanged, describe_change, parse_definition
from swath.tables.table import Table

DEFINITION = "definition"  # the fact that records what the table was


async def check_frontier(
    frontier: Frontier, settings: BackfillSettings, table: Table, *, purpose: Mapping[str, Any]
) -> bool:
    """Return whether the frontier holds this backfill. Raise UsageError if it holds something else."""
    in_use = (await frontier.status()).begun  # read first: another process may start the backfill in between
    about = await read_description(frontier)
    if about is not None:
        # Compare what the names resolve to: the same name may mean another table now, or another primary key.
        resolved = {"table": table.description.name, "key": list(table.description.key_names)}
        before = about["purpose"] | {"table": about["table"], "key": about["key_columns"]}
        if different := _describe_differences(before, {**purpose, **resolved}):
            await _reject_other_backfill(frontier, settings, different)
        if not settings.force:
            await _check_definition(frontier, settings, table, about)
    elif in_use:
        raise UsageError(
            f"{mask_password(settings.store_url)} holds work that is not a backfill. "
            f"Choose another {get_store_option(settings)}"
        )
    return about is not None


async def record_definition(frontier: Frontier, table: Table) -> None:
    """Record what the table is, unless that is known. Backfills of earlier versions began without it."""
    if not await frontier.facts([DEFINITION]):
        await frontier.learn({DEFINITION: table.definition.to_json()})


def get_store_option(settings: BackfillSettings) -> str:
    """Return the option that chooses another frontier."""
    return "--name" if settings.store is None else "--store"


async def _check_definition(
    frontier: Frontier, settings: BackfillSettings, table: Table, about: Mapping[str, Any]
) -> None:
    """Raise TableChanged if the key sorts differently now, or if the table is another one."""
    recorded = (await frontier.facts([DEFINITION])).get(DEFINITION)
    change = None
    if recorded is not None:
        change = describe_change(table.description.name, parse_definition(recorded), table.definition)
    elif about["text_key"] != table.description.key[0].is_text:
        was, now = ("text", "not") if about["text_key"] else ("not text", "text")
        change = f"the key of {table.description.name} was {was} and is {now} now"
    if change is not None:
        raise TableChanged(
            f"{change}. The backfill at {mask_password(settings.store_url)} began before that, so some rows could be "
            f"changed twice and others not at all. Undo the change, start another backfill with a new "
            f"{get_store_option(settings)}, or resume this one with --force"
        )


async def _reject_other_backfill(frontier: Frontier, settings: BackfillSettings, started_with: str) -> None:
    progress = await read_progress(frontier)
    store, option = mask_password(settings.store_url), get_store_option(settings)
    if progress is not None and progress.complete:
        raise UsageError(
            f"the backfill at {store} is complete; it was started with {started_with}. Start another one with a "
            f"new {option}"
        )
    raise UsageError(
        f"the backfill at {store} was started with {started_with}. Repeat these to resume it, or start another one "
        f"with a new {option}"
    )


def _describe_differences(before: Mapping[str, Any], now: Mapping[str, Any]) -> str:
    """Return the flags of `before` that differ from those of `now`, with their values, and those that it lacks."""
    changed = [name for name in {**before, **now} if before.get(name) != now.get(name)]
    given = [f"{_to_flag(name)} {before[name]!r}" for name in changed if before.get(name) is not None]
    missing = [_to_flag(name) for name in changed if before.get(name) is None]
    return ", ".join([*given, *(["without " + " and ".join(missing)] if missing else [])])


def _to_flag(name: str) -> str:
    return {"first": "--from", "last": "--to"}.get(name, f"--{name}")
