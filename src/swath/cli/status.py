"""`swath status`: exact counters, checkpoints and settings; live with --watch."""

import asyncio
from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Annotated, Any

import typer
from rich.console import Group, RenderableType
from rich.panel import Panel
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

from swath.backfill.progress import Progress, progress
from swath.cli.command import open_frontier, run_command
from swath.cli.exit_codes import ExitCode
from swath.cli.formatting import escape, format_duration, format_json, format_limits, format_time
from swath.cli.options import JSONOption, StoreOption
from swath.cli.parsers import parse_duration
from swath.cli.terminal import is_terminal, make_console, open_live_display, print_json, print_json_line
from swath.core.errors import UsageError
from swath.core.redact import mask_password
from swath.core.status import Status, summarize_status
from swath.core.store import PartitionStatus, StoreStatus
from swath.frontier import Frontier
from swath.tables.table import Key

WATCH_SECONDS = 2.0
LEAST_WATCH_SECONDS = 0.1
RATE_SAMPLES = 6  # looks over which a rate is taken
COUNTERS = ("ready", "delayed", "claimed", "inbox", "done", "dead", "lanes")
BAR_WIDTH = 40


def status(
    seconds: Annotated[
        float | None,
        typer.Argument(
            parser=parse_duration,
            metavar="SECONDS",
            show_default="2",
            help="With --watch: time between looks",
        ),
    ] = None,
    store: StoreOption = None,
    watch: Annotated[
        bool, typer.Option("--watch", "-w", help="Look again and again, with rates; Ctrl-C leaves")
    ] = False,
    partitions: Annotated[bool, typer.Option("--partitions", "-p", help="List every partition")] = False,
    json: JSONOption = False,
) -> None:
    """Show how many items are where, and up to where all is settled.

    Counters are exact, and reading them costs the same however large the frontier is.
    """
    work = _watch(store, seconds, partitions, json) if watch else _once(store, seconds, partitions, json)
    run_command(store, work, interrupted=ExitCode.OK if watch else ExitCode.INTERRUPTED)


@dataclass(frozen=True, slots=True)
class Rates:
    """Per second, over the last looks."""

    done: float
    dead: float
    added: float


@dataclass(frozen=True, slots=True)
class View:
    """One look at a frontier."""

    store: str
    backend: StoreStatus
    rates: Rates | None = None
    backfill: Progress | None = None  # where that is what the frontier is of

    @property
    def status(self) -> Status:
        return summarize_status(self.backend)


async def _once(store: str | None, seconds: float | None, partitions: bool, json: bool) -> None:
    if seconds is not None:
        raise UsageError(f"SECONDS goes with --watch: swath status --watch {seconds:g}")
    async with open_frontier(store) as frontier:
        view = View(mask_password(store or ""), await frontier._store.status(), backfill=await progress(frontier))
    if json:
        print_json(as_json(view))
    elif is_terminal():
        make_console().print(rendered(view, partitions))
    else:
        for line in plain(view, partitions):
            print(line)


async def _watch(store: str | None, seconds: float | None, partitions: bool, json: bool) -> None:
    pause = WATCH_SECONDS if seconds is None else seconds
    if pause < LEAST_WATCH_SECONDS:
        raise UsageError(f"--watch {pause:g}: at least {LEAST_WATCH_SECONDS} seconds between looks")
    async with open_frontier(store) as frontier:
        looks = _looks(mask_password(store or ""), frontier, pause)
        if json:
            async for view in looks:
                print_json_line(as_json(view))
                print(end="", flush=True)
        elif is_terminal():
            with open_live_display(transient=False) as draw:
                async for view in looks:
                    draw(rendered(view, partitions))
        else:
            async for view in looks:
                print(one_line(view), flush=True)


async def _looks(store: str, frontier: Frontier, pause: float) -> Any:
    samples: deque[StoreStatus] = deque(maxlen=RATE_SAMPLES)
    while True:
        samples.append(await frontier._store.status())
        yield View(store, samples[-1], rates(samples[0], samples[-1]), await progress(frontier))
        await asyncio.sleep(pause)


def rates(first: StoreStatus, last: StoreStatus) -> Rates | None:
    """What happened per second between two looks, by the store's clock."""
    seconds = (last.now - first.now) / 1e6
    if seconds <= 0:
        return None

    def per_second(name: str) -> float:
        before, after = (sum(int(getattr(part, name)) for part in look.partitions) for look in (first, last))
        return max(0.0, (after - before) / seconds)

    return Rates(done=per_second("done"), dead=per_second("dead"), added=per_second("end"))


# JSON


def as_json(view: View) -> dict[str, Any]:
    status = view.status
    data: dict[str, Any] = {"store": view.store, "now": status.now.isoformat(), "paused": status.paused}
    data |= {name: getattr(status, name) for name in COUNTERS}
    data |= {"waiting": status.waiting, "lag": status.lag}
    data["next_ready_at"] = None if status.next_ready_at is None else status.next_ready_at.isoformat()
    data["defaults"] = {
        "min_interval": status.min_interval,
        "concurrency": status.concurrency,
        "max_attempts": status.max_attempts,
    }
    data["checkpoint"] = {"position": _position(status), "end": _end(status), "lag": status.lag, "dead": _dead(status)}
    data["partitions"] = [partition_json(part) for part in view.backend.partitions]
    if view.backfill is not None:
        data["backfill"] = backfill_json(view.backfill)
    if view.rates is not None:
        data["per_second"] = {name: round(getattr(view.rates, name), 3) for name in ("done", "dead", "added")}
    return data


def partition_json(part: PartitionStatus) -> dict[str, Any]:
    return {
        "partition": part.partition,
        **{name: getattr(part, name) for name in COUNTERS},
        "checkpoint": {
            "position": part.checkpoint,
            "end": part.end,
            "lag": part.end - part.checkpoint,
            "dead": part.checkpoint_dead,
        },
    }


def backfill_json(found: Progress) -> dict[str, Any]:
    return {
        "table": found.about["table"],
        "key": found.about["key_columns"],
        "covered": found.key,
        "upto": found.upto,
        "share": found.share,
        "given_up": found.dead,
        "over": found.over,
    }


def _backfill(found: Progress) -> Iterator[tuple[str, str]]:
    """What a backfill has covered, for people and in plain lines."""
    yield "backfill", f"{found.about['table']} by {', '.join(found.about['key_columns'])}"
    yield "covered", "nothing yet" if found.key is None else f"up to {_key(found.key)}"
    if found.share is not None:
        yield "share", f"{found.share:.1%}"


def _key(found: Key) -> str:
    return str(found[0]) if len(found) == 1 else format_json(list(found))


def _position(status: Status) -> int:
    return sum(checkpoint.position for checkpoint in status.checkpoints)


def _end(status: Status) -> int:
    return sum(checkpoint.end for checkpoint in status.checkpoints)


def _dead(status: Status) -> int:
    return sum(checkpoint.dead for checkpoint in status.checkpoints)


# plain


def plain(view: View, partitions: bool) -> Iterator[str]:
    """`name<tab>value` lines; with --partitions one more line for each."""
    status = view.status
    yield f"store\t{escape(view.store)}"
    yield f"now\t{status.now.isoformat()}"
    yield f"paused\t{'yes' if status.paused else 'no'}"
    for name in COUNTERS:
        yield f"{name}\t{getattr(status, name)}"
    yield f"checkpoint\t{_position(status)}"
    yield f"end\t{_end(status)}"
    yield f"lag\t{status.lag}"
    yield f"next_ready_at\t{'' if status.next_ready_at is None else status.next_ready_at.isoformat()}"
    yield f"min_interval\t{status.min_interval:g}"
    yield f"concurrency\t{status.concurrency}"
    yield f"max_attempts\t{status.max_attempts}"
    if view.backfill is not None:
        for name, value in _backfill(view.backfill):
            yield f"{name}\t{escape(value)}"
    if partitions:
        for part in view.backend.partitions:
            counters = " ".join(f"{name}={getattr(part, name)}" for name in (*COUNTERS, "checkpoint", "end"))
            yield f"partition {part.partition}\t{counters}"


def one_line(view: View) -> str:
    status = view.status
    line = f"{status.now:%Y-%m-%dT%H:%M:%SZ} " + " ".join(f"{name}={getattr(status, name)}" for name in COUNTERS)
    line += f" lag={status.lag} paused={'yes' if status.paused else 'no'}"
    if view.backfill is not None and view.backfill.share is not None:
        line += f" share={view.backfill.share:.3f}"
    return line if view.rates is None else f"{line} done_per_second={view.rates.done:.1f}"


# on a terminal


def rendered(view: View, partitions: bool) -> RenderableType:
    status = view.status
    parts: list[RenderableType] = [_counters(view), Text(), _settings(view)]
    total = status.waiting + status.done + status.dead
    if total:
        parts += [Text(), _progress(status, total)]
    if partitions:
        parts += [Text(), _partitions(view.backend)]
    title = Text(escape(view.store), style="bold")
    title.append("  PAUSED", style="bold yellow") if status.paused else None
    return Panel(
        Group(*parts),
        title=title,
        title_align="left",
        subtitle=Text(format_time(status.now), style="dim"),
        subtitle_align="right",
        border_style="yellow" if status.paused else "cyan",
        expand=False,
        padding=(1, 2),
    )


def _counters(view: View) -> Table:
    status, rates = view.status, view.rates
    notes = {
        "ready": "waiting for a worker" if not status.paused else "waiting for swath resume",
        "delayed": "waiting for their time",
        "claimed": "being worked on",
        "inbox": "discovered, taken in by the next claim",
        "done": f"{rates.done:,.1f} a second" if rates else "",
        "dead": "given up: swath dead" if status.dead else "",
        "lanes": "",
    }
    styles = {"done": "green", "dead": "red", "claimed": "cyan"}
    grid = Table.grid(padding=(0, 2))
    grid.add_column(no_wrap=True)
    grid.add_column(justify="right", no_wrap=True)
    grid.add_column(style="dim")
    for name in COUNTERS:
        count = getattr(status, name)
        style = "dim" if not count else f"bold {styles.get(name, '')}"
        grid.add_row(name, Text(f"{count:,}", style=style), notes[name] if count or name == "done" else "")
    return grid


def _settings(view: View) -> Table:
    status = view.status
    grid = Table.grid(padding=(0, 2))
    grid.add_column(no_wrap=True)
    grid.add_column()
    if view.backfill is not None:
        for name, value in _backfill(view.backfill):
            grid.add_row(name, Text(escape(value)))
    position, end = _position(status), _end(status)
    dead = f" ({_dead(status):,} of them dead)" if _dead(status) else ""
    grid.add_row("checkpoint", f"{position:,} of {end:,} settled{dead}, lag {status.lag:,}")
    grid.add_row("partitions", f"{len(status.checkpoints):,}")
    grid.add_row("lane defaults", format_limits(status.min_interval, status.concurrency))
    grid.add_row("attempts", f"up to {status.max_attempts:,}")
    grid.add_row("next ready", _next_ready(status))
    return grid


def _next_ready(status: Status) -> str:
    if status.paused:
        return "paused: swath resume"
    if status.next_ready_at is None:
        return "nothing waits"
    if status.claimed == status.waiting:
        return "nothing waits but what is being worked on"
    ahead = (status.next_ready_at - status.now).total_seconds()
    if ahead <= 0:
        return "now"
    sooner = ", or when something is settled" if status.claimed else ""  # a lease that ends is counted as well
    return f"in {format_duration(ahead)}, {format_time(status.next_ready_at)}{sooner}"


def _progress(status: Status, total: int) -> Table:
    # With the checkpoint at the end, what waits is to be visited again.
    settled = status.done + status.dead if status.lag or status.inbox else total
    grid = Table.grid(padding=(0, 2))
    share = 100 * settled / total
    shown = f"{share:.1f} %" if share < 99.95 or settled == total else "99.9 %"
    grid.add_row(ProgressBar(total=total, completed=settled, width=BAR_WIDTH), f"{shown} of {total:,} settled")
    return grid


def _partitions(store: StoreStatus) -> Table:
    table = Table(box=None, pad_edge=False, header_style="cyan")
    for name in ("partition", *COUNTERS, "checkpoint", "end", "lag"):
        table.add_column(name, justify="right", no_wrap=True)
    for part in store.partitions:
        numbers = [part.partition, *(getattr(part, name) for name in COUNTERS)]
        numbers += [part.checkpoint, part.end, part.end - part.checkpoint]
        table.add_row(*(f"{number:,}" for number in numbers))
    return table
