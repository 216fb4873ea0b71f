"""`swath db`: create, migrate, check and describe a store."""

from typing import Any

import typer

import swath
from swath.cli import check as checks
from swath.cli.command import open_frontier, require_store, run_command
from swath.cli.exit_codes import ExitCode
from swath.cli.formatting import escape, format_limits, format_size, pluralize
from swath.cli.options import (
    ConcurrencyOption,
    JSONOption,
    MaxAttemptsOption,
    MinIntervalOption,
    PartitionsOption,
    StoreOption,
)
from swath.cli.store_info import describe
from swath.cli.terminal import print_facts, print_json
from swath.core.clock import SECOND
from swath.core.redact import mask_password
from swath.opening import migrate as migrate_store

app = typer.Typer(help="Create, migrate, check and describe a store.", no_args_is_help=True)


@app.command("init")
def init(
    store: StoreOption = None,
    partitions: PartitionsOption = None,
    min_interval: MinIntervalOption = None,
    concurrency: ConcurrencyOption = None,
    max_attempts: MaxAttemptsOption = None,
    json: JSONOption = False,
) -> None:
    """Create a frontier.

    One that is there stays as it is, except for defaults that are given.
    """
    settings = {
        "partitions": partitions,
        "min_interval": min_interval,
        "concurrency": concurrency,
        "max_attempts": max_attempts,
    }
    run_command(store, _init(store, settings, json))


@app.command("migrate")
def migrate(store: StoreOption = None, json: JSONOption = False) -> None:
    """Bring a store that an older swath wrote to the format of this one."""
    run_command(store, _migrate(store, json))


@app.command("check")
def check(store: StoreOption = None, json: JSONOption = False) -> None:
    """Count everything again and compare.

    Exits with 1 when a counter or a promise does not hold. It takes longer the larger the frontier is. Partitions that
    are worked on meanwhile are looked at again, and left out if they never hold still: `swath pause` makes them.
    """
    run_command(store, _check(store, json))


@app.command("info")
def info(store: StoreOption = None, json: JSONOption = False) -> None:
    """Show what a store is: backend, format, partitions, size."""
    run_command(store, _info(store, json))


async def _init(store: str | None, settings: dict[str, Any], json: bool) -> None:
    async with open_frontier(store, create=True, **settings) as frontier:
        kept = frontier._store.settings
    data = {
        "store": mask_password(store or ""),
        "partitions": kept.partitions,
        "min_interval": kept.min_interval / SECOND,
        "concurrency": kept.concurrency,
        "max_attempts": kept.max_attempts,
    }
    if json:
        print_json(data)
    else:
        print(
            f"{escape(mask_password(store or ''))} is ready: {pluralize(kept.partitions, 'partition')}, "
            f"{format_limits(kept.min_interval / SECOND, kept.concurrency)}, up to "
            f"{pluralize(kept.max_attempts, 'attempt')}"
        )


async def _migrate(store: str | None, json: bool) -> None:
    applied = await migrate_store(require_store(store))
    if json:
        print_json({"store": mask_password(store or ""), "applied": list(applied)})
    elif applied:
        for name in applied:
            print(f"applied {name}")
    else:
        print("nothing to do: the store has this version's format")


async def _check(store: str | None, json: bool) -> int:
    async with open_frontier(store) as frontier:
        report = await checks.check(frontier)
    if json:
        print_json({"store": mask_password(store or ""), **report.as_json()})
    else:
        for finding in report.findings:
            print(f"partition {finding.partition}: {finding.text}")
        print(report.summary())
    return ExitCode.NEGATIVE if report.findings else ExitCode.OK


async def _info(store: str | None, json: bool) -> None:
    async with open_frontier(store) as frontier:
        partitions = frontier._store.settings.partitions
        positions = sum(part.end for part in (await frontier._store.status()).partitions)
        about = await describe(require_store(store))
    data = {"store": mask_password(store or ""), "backend": about.backend, "format": about.format}
    data |= {"partitions": partitions, "positions": positions, "bytes": about.bytes, "version": swath.__version__}
    if json:
        print_json(data)
        return
    pairs = [(name, f"{value}") for name, value in data.items() if name != "bytes"]
    print_facts("store", [*pairs, ("size", format_size(about.bytes))])
