"""`swath status`: exact counters, checkpoints and settings of a frontier; live with --watch."""

import asyncio
from collections import deque
from collections.abc import AsyncIterator
from typing import Annotated

import typer

from swath import Frontier, Status, UsageError, mask_password
from swath.backfill.progress import read_progress
from swath.cli.command import open_frontier, run_command
from swath.cli.exit_codes import ExitCode
from swath.cli.options import JSONOption, StoreOption
from swath.cli.parsers import parse_duration
from swath.cli.status_view import StatusView, compute_rates, make_line, make_lines, make_panel, status_to_json
from swath.cli.terminal import is_terminal, make_console, open_live_display, print_json, print_json_line

WATCH_SECONDS = 2.0
MIN_WATCH_SECONDS = 0.1
RATE_SAMPLES = 6  # number of samples over which a rate is computed


def status(
    seconds: Annotated[
        float | None,
        typer.Argument(
            parser=parse_duration,
            metavar="SECONDS",
            show_default="2",
            help="With --watch: time between updates",
        ),
    ] = None,
    store: StoreOption = None,
    watch: Annotated[bool, typer.Option("--watch", "-w", help="Keep updating, with rates, until Ctrl-C")] = False,
    partitions: Annotated[bool, typer.Option("--partitions", "-p", help="List every partition")] = False,
    json: JSONOption = False,
) -> None:
    """Show how many items are in each state, and how far all of them are settled (the checkpoint).

    The counters are exact. Reading them takes the same time however large the frontier is.
    """
    work = _watch(store, seconds, partitions, json) if watch else _show_once(store, seconds, partitions, json)
    run_command(store, work, interrupted=ExitCode.OK if watch else ExitCode.INTERRUPTED)


async def _show_once(store: str | None, seconds: float | None, partitions: bool, json: bool) -> None:
    if seconds is not None:
        raise UsageError(f"SECONDS needs --watch: swath status --watch {seconds:g}")
    async with open_frontier(store) as frontier:
        view = StatusView(mask_password(store or ""), await frontier.status(), backfill=await read_progress(frontier))
    if json:
        print_json(status_to_json(view))
    elif is_terminal():
        make_console().print(make_panel(view, partitions))
    else:
        for line in make_lines(view, partitions):
            print(line)


async def _watch(store: str | None, seconds: float | None, partitions: bool, json: bool) -> None:
    interval = WATCH_SECONDS if seconds is None else seconds
    if interval < MIN_WATCH_SECONDS:
        raise UsageError(f"--watch {interval:g}: the minimum between two updates is {MIN_WATCH_SECONDS} seconds")
    async with open_frontier(store) as frontier:
        views = _sample(mask_password(store or ""), frontier, interval)
        if json:
            async for view in views:
                print_json_line(status_to_json(view))
                print(end="", flush=True)
        elif is_terminal():
            with open_live_display(transient=False) as draw:
                async for view in views:
                    draw(make_panel(view, partitions))
        else:
            async for view in views:
                print(make_line(view), flush=True)


async def _sample(store: str, frontier: Frontier, interval: float) -> AsyncIterator[StatusView]:
    samples: deque[Status] = deque(maxlen=RATE_SAMPLES)
    while True:
        samples.append(await frontier.status())
        yield StatusView(store, samples[-1], compute_rates(samples[0], samples[-1]), await read_progress(frontier))
        await asyncio.sleep(interval)
