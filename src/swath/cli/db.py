"""`swath db`: create, migrate, check and describe a store."""

from typing import Annotated, Any

import typer

import swath
from swath import CheckReport, KeyCheckReport, mask_password
from swath.cli.command import Group, open_frontier, run_command
from swath.cli.exit_codes import ExitCode
from swath.cli.formatting import format_limits, format_size, pluralize
from swath.cli.options import (
    ConcurrencyOption,
    JSONOption,
    MaxAttemptsOption,
    MinIntervalOption,
    PartitionsOption,
    StoreArgument,
    StoreOption,
    get_concurrency,
)
from swath.cli.parsers import parse_duration
from swath.cli.store_argument import find_frontier, resolve_store
from swath.cli.terminal import print_facts, print_json, print_line

app = typer.Typer(
    cls=Group,
    help="""Create, migrate, check and describe a store.

    Examples:
        swath db init sqlite:///work.db --min-interval 1s
        swath db check crawl/
        swath db info work.db
    """,
    no_args_is_help=True,
)


@app.command("init")
def init(
    argument: StoreArgument = None,
    store: StoreOption = None,
    partitions: PartitionsOption = None,
    min_interval: MinIntervalOption = None,
    concurrency: ConcurrencyOption = None,
    max_attempts: MaxAttemptsOption = None,
    json: JSONOption = False,
) -> None:
    """Create a frontier.

    If the frontier exists, the command changes only the defaults that are given.

    Examples:
        swath db init sqlite:///work.db
        swath db init sqlite:///work.db --min-interval 1s --concurrency 2
        swath db init 'postgresql:///app?schema=jobs' --partitions 16
    """
    settings = {
        "partitions": partitions,
        "min_interval": min_interval,
        "concurrency": get_concurrency(concurrency),
        "max_attempts": max_attempts,
    }
    store = argument or store
    run_command(store, _init(store, settings, json))


@app.command("migrate")
def migrate(argument: StoreArgument = None, store: StoreOption = None, json: JSONOption = False) -> None:
    """Upgrade a store that an older version of swath created.

    Examples:
        swath db migrate work.db
        swath db migrate --store postgresql://user@host/app
    """
    store = argument or store
    run_command(store, _migrate(store, json))


@app.command("check")
def check(
    argument: StoreArgument = None,
    store: StoreOption = None,
    seconds: Annotated[
        float | None,
        typer.Option(
            "--for",
            parser=parse_duration,
            metavar="TIME",
            show_default=False,
            help="Time for the keys, such as 10m; the output says how to continue",
        ),
    ] = None,
    after: Annotated[
        str | None,
        typer.Option(
            "--after", metavar="PLACE", show_default=False, help="Continue with the keys where a check stopped"
        ),
    ] = None,
    json: JSONOption = False,
) -> None:
    """Count every row, compare the result with the counters of the store, and look for lost and duplicate keys.

    Exits with 1 if a counter or an invariant is wrong. The time grows with the size of the frontier. Partitions that
    change during the check are counted again, and skipped if they keep changing: `swath pause` stops the changes. Keys
    are checked beside running workers, in small steps. With --after, nothing is counted again.

    Examples:
        swath db check crawl/
        swath db check work.db --for 10m --json
    """
    store = argument or store
    run_command(store, _check(store, seconds, after, json))


@app.command("info")
def info(argument: StoreArgument = None, store: StoreOption = None, json: JSONOption = False) -> None:
    """Show the backend, format, partitions and size of a store.

    Examples:
        swath db info crawl/
        swath db info postgresql://user@host/app --json
    """
    store = argument or store
    run_command(store, _info(store, json))


async def _init(store: str | None, settings: dict[str, Any], json: bool) -> None:
    async with open_frontier(store, create=True, **settings) as frontier:
        status = await frontier.status()
    name = mask_password(resolve_store(store))
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
        print_line(
            f"{name} is ready: {pluralize(partitions, 'partition')}, "
            f"{format_limits(status.min_interval, status.concurrency)}, up to "
            f"{pluralize(status.max_attempts, 'attempt')}"
        )


async def _migrate(store: str | None, json: bool) -> None:
    url = await find_frontier(store)
    applied = await swath.migrate(url)
    if json:
        print_json({"store": mask_password(url), "applied": list(applied)})
    elif applied:
        for name in applied:
            print_line(f"applied {name}")
    else:
        print_line("nothing to do: the store has the current format")


async def _check(store: str | None, seconds: float | None, after: str | None, json: bool) -> int:
    url = await find_frontier(store)
    async with swath.open(url, create=False) as frontier:
        report = await frontier.check() if after is None else CheckReport(0, 0)
        keys = await frontier.check_keys(after=after, seconds=seconds)
    mismatches = [*report.mismatches, *keys.mismatches]
    if json:
        print_json(
            {
                "store": mask_password(url),
                "ok": not mismatches,
                "partitions": report.partitions,
                "items": report.items,
                "skipped": list(report.skipped),
                "keys_examined": keys.examined,
                "after": keys.after,
                "mismatches": [{"partition": found.partition, "text": found.text} for found in mismatches],
            }
        )
    else:
        for found in mismatches:
            print_line(f"partition {found.partition}: {found.text}", keep="")
        if after is None:
            print_line(summarize_check(report))
        print_line(summarize_keys(keys))
    return ExitCode.NEGATIVE if mismatches else ExitCode.OK


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


def summarize_keys(report: KeyCheckReport) -> str:
    examined = f"examined {report.examined:,} keys and items"
    if report.mismatches:
        summary = f"{pluralize(len(report.mismatches), 'error')}: {examined}; please report this"
    else:
        summary = f"ok: {examined}, and each key is in one place"
    return summary if report.after is None else f"{summary}. Not complete: continue with --after {report.after}"


async def _info(store: str | None, json: bool) -> None:
    url = await find_frontier(store)
    async with swath.open(url, create=False) as frontier:
        checkpoints = (await frontier.status()).checkpoints
    described = await swath.describe(url)
    data = {
        "store": mask_password(url),
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
