"""`swath db`: create, migrate, check and describe a store."""

from typing import Any

import typer

import swath
from swath import CheckReport, mask_password
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
    get_concurrency,
)
from swath.cli.terminal import print_facts, print_json

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

    If the frontier exists, the command changes only the defaults that are given.
    """
    settings = {
        "partitions": partitions,
        "min_interval": min_interval,
        "concurrency": get_concurrency(concurrency),
        "max_attempts": max_attempts,
    }
    run_command(store, _init(store, settings, json))


@app.command("migrate")
def migrate(store: StoreOption = None, json: JSONOption = False) -> None:
    """Upgrade a store that an older version of swath created."""
    run_command(store, _migrate(store, json))


@app.command("check")
def check(store: StoreOption = None, json: JSONOption = False) -> None:
    """Count every row and compare the result with the counters of the store.

    Exits with 1 if a counter or an invariant is wrong. The time grows with the size of the frontier. Partitions that
    change during the check are counted again, and skipped if they keep changing: `swath pause` stops the changes.
    """
    run_command(store, _check(store, json))


@app.command("info")
def info(store: StoreOption = None, json: JSONOption = False) -> None:
    """Show the backend, format, partitions and size of a store."""
    run_command(store, _info(store, json))


async def _init(store: str | None, settings: dict[str, Any], json: bool) -> None:
    async with open_frontier(store, create=True, **settings) as frontier:
        status = await frontier.status()
    name = mask_password(store or "")
    partitions = len(status.partitions)
    if json:
        print_json(
            {
                "store": name,
                "partitions": partitions,
                "min_interval": status.min_interval,
                "concurrency": status.concurrency,
                "max_attempts": status.max_attempts,
            }
        )
    else:
        print(
            f"{escape(name)} is ready: {pluralize(partitions, 'partition')}, "
            f"{format_limits(status.min_interval, status.concurrency)}, up to "
            f"{pluralize(status.max_attempts, 'attempt')}"
        )


async def _migrate(store: str | None, json: bool) -> None:
    applied = await swath.migrate(require_store(store))
    if json:
        print_json({"store": mask_password(store or ""), "applied": list(applied)})
    elif applied:
        for name in applied:
            print(f"applied {name}")
    else:
        print("nothing to do: the store has the current format")


async def _check(store: str | None, json: bool) -> int:
    async with open_frontier(store) as frontier:
        report = await frontier.check()
    if json:
        print_json(
            {
                "store": mask_password(store or ""),
                "ok": report.ok,
                "partitions": report.partitions,
                "items": report.items,
                "skipped": list(report.skipped),
                "mismatches": [{"partition": found.partition, "text": found.text} for found in report.mismatches],
            }
        )
    else:
        for found in report.mismatches:
            print(f"partition {found.partition}: {found.text}")
        print(summarize_check(report))
    return ExitCode.OK if report.ok else ExitCode.NEGATIVE


def summarize_check(report: CheckReport) -> str:
    if report.mismatches:
        errors = pluralize(len(report.mismatches), "error")
        return f"{errors} in {pluralize(report.partitions, 'partition')}: please report this"
    checked = pluralize(report.partitions - len(report.skipped), "partition")
    summary = f"ok: counted {pluralize(report.items, 'item')} in {checked}, and every counter is right"
    if report.skipped:
        skipped = pluralize(len(report.skipped), "partition")
        summary += f"; skipped {skipped} that kept changing: run swath pause first to check all"
    return summary


async def _info(store: str | None, json: bool) -> None:
    async with open_frontier(store) as frontier:
        checkpoints = (await frontier.status()).checkpoints
    described = await swath.describe(require_store(store))
    data = {
        "store": mask_password(store or ""),
        "backend": described.backend,
        "format": described.format,
        "partitions": len(checkpoints),
        "positions": sum(checkpoint.end for checkpoint in checkpoints),
        "bytes": described.bytes,
        "version": swath.__version__,
    }
    if json:
        print_json(data)
        return
    pairs = [(name, f"{value}") for name, value in data.items() if name != "bytes"]
    print_facts("store", [*pairs, ("size", format_size(described.bytes))])
