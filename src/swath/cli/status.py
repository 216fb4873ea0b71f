"""`swath status`: exact counters, checkpoints and settings of a frontier; live with --watch."""

import asyncio
import re
from collections import deque
from collections.abc import AsyncIterator, Sequence
from typing import Annotated, Any

import typer

import swath
from swath import Frontier, Status, StoreURL, SwathError, UsageError, mask_password
from swath.cli.command import run_command
from swath.cli.exit_codes import ExitCode
from swath.cli.options import JSONOption, StoreArgument, StoreOption
from swath.cli.parsers import parse_duration
from swath.cli.status_job import read_job, read_kind
from swath.cli.status_view import (
    StatusView,
    compute_rates,
    list_facts,
    make_line,
    make_live_panel,
    print_status,
    to_json,
)
from swath.cli.status_waits import read_waits
from swath.cli.store_argument import choose_frontier, find_frontier, format_store_option, list_frontiers, resolve_store
from swath.cli.terminal import (
    is_terminal,
    make_console,
    open_live_display,
    print_json,
    print_json_line,
    print_line,
    print_pairs,
    print_rows,
)

WATCH_SECONDS = 2.0
MIN_WATCH_SECONDS = 0.1
_NUMBER = re.compile(r"[0-9.]+")

RATE_SAMPLES = 6  # number of samples over which a rate is computed
TITLE_MARGIN = 30  # columns of a panel's title that are not the store
COLUMNS = ("frontier", "kind", "waiting", "done", "dead")  # of the list of frontiers


def status(
    argument: StoreArgument = None,
    store: StoreOption = None,
    watch: Annotated[bool, typer.Option("--watch", "-w", help="Keep updating, with rates, until Ctrl-C")] = False,
    every: Annotated[
        float | None,
        typer.Option(
            "--every", parser=parse_duration, metavar="TIME", show_default="2s", help="Time between updates of --watch"
        ),
    ] = None,
    partitions: Annotated[bool, typer.Option("--partitions", "-p", help="List every partition")] = False,
    json: JSONOption = False,
) -> None:
    """Show how many items are in each state, and how far all of them are settled (the checkpoint).

    The counters are exact. Reading them takes the same time however large the frontier is. If a database holds several
    frontiers and the URL names none of them, the command lists them.

    Examples:
        swath status crawl/
        swath status findings.jsonl
        swath status postgresql://user@host/app --watch --every 5s
    """
    store = argument or store
    if watch and argument is not None and _NUMBER.fullmatch(argument):
        raise typer.BadParameter(f"--watch takes no value: to update every {argument} seconds, give --every {argument}")
    if watch or every is not None:
        run_command(store, _watch(store, every, partitions, json), interrupted=ExitCode.OK)
    else:
        run_command(store, _show_once(store, partitions, json))


async def _show_once(store: str | None, partitions: bool, json: bool) -> None:
    url = resolve_store(store)
    others = await list_frontiers(url)
    has_default = any("schema" not in StoreURL.parse(other).query for other in others)
    if len(others) > 1 and not (json and has_default):  # a script keeps getting the default frontier
        await _print_frontiers(url, others, json)
        return
    url = choose_frontier(url, others)
    async with swath.open(url, create=False) as frontier:
        view = await _read(frontier, url, await frontier.status())
    if json:
        more = {"frontiers": [await _describe_frontier(other) for other in others]} if len(others) > 1 else {}
        print_json(to_json(view) | more)
    elif is_terminal():
        print_status(view, partitions, argument=format_store_option(store))
    else:
        print_pairs(list_facts(view, partitions))


async def _watch(store: str | None, every: float | None, partitions: bool, json: bool) -> None:
    interval = WATCH_SECONDS if every is None else every
    if interval < MIN_WATCH_SECONDS:
        raise UsageError(f"--every {interval:g}: the minimum between two updates is {MIN_WATCH_SECONDS} seconds")
    url = await find_frontier(store)
    async with swath.open(url, create=False) as frontier:
        views = _sample(url, frontier, interval)
        if json:
            async for view in views:
                print_json_line(to_json(view), flush=True)
        elif is_terminal():
            if len(url) > make_console().width - TITLE_MARGIN:
                print_line(mask_password(url))  # the title of the live display is cut off
            with open_live_display(transient=False) as draw:
                async for view in views:
                    draw(make_live_panel(view, partitions))
        else:
            async for view in views:
                print_line(make_line(view))


async def _sample(url: str, frontier: Frontier, interval: float) -> AsyncIterator[StatusView]:
    samples: deque[Status] = deque(maxlen=RATE_SAMPLES)
    while True:
        samples.append(await frontier.status())
        yield await _read(frontier, url, samples[-1], first=samples[0])
        await asyncio.sleep(interval)


async def _read(frontier: Frontier, url: str, status: Status, *, first: Status | None = None) -> StatusView:
    return StatusView(
        store=mask_password(url),
        status=status,
        job=await read_job(frontier),
        waits=await read_waits(frontier, status),
        rates=None if first is None else compute_rates(first, status),
    )


# Several frontiers in a database


async def _print_frontiers(url: str, urls: Sequence[str], json: bool) -> None:
    found = [await _describe_frontier(one) for one in urls]
    if json:
        print_json({"store": mask_password(url), "frontiers": found})
        return
    await print_rows(COLUMNS, _iterate(found), right=COLUMNS[2:])


async def _iterate(found: list[dict[str, Any]]) -> AsyncIterator[list[str]]:
    for one in found:
        error = one.get("error")
        numbers = ["", "", str(error)] if error else [f"{one[name]:,}" for name in COLUMNS[2:]]
        yield [one["store"], one["kind"] or "unreadable", *numbers]


async def _describe_frontier(url: str) -> dict[str, Any]:
    try:
        async with swath.open(url, create=False) as frontier:
            status, kind = await frontier.status(), await read_kind(frontier)
    except SwathError as error:  # of another version, or of another role
        return {"store": mask_password(url), "kind": None, "error": mask_password(str(error))}
    numbers = {name: getattr(status, name) for name in COLUMNS[2:]}
    return {"store": mask_password(url), "kind": kind, **numbers}
