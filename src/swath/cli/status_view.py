"""The status of a frontier as a panel, as plain lines and as JSON."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from rich.console import Group, RenderableType
from rich.panel import Panel
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

from swath import Checkpoint, PartitionInfo, Status
from swath.backfill.progress import Progress
from swath.cli.formatting import escape, format_concurrency, format_duration, format_json, format_limits, format_time

COUNTERS = ("ready", "delayed", "claimed", "inbox", "done", "dead", "lanes")
BAR_WIDTH = 40


@dataclass(frozen=True, slots=True)
class Rates:
    """Items per second over the last samples."""

    done: float
    dead: float
    added: float


@dataclass(frozen=True, slots=True)
class StatusView:
    """The status of a frontier at one time, and what is shown beside it."""

    store: str
    status: Status
    rates: Rates | None = None
    backfill: Progress | None = None  # None if the frontier does not belong to a backfill


def compute_rates(first: Status, last: Status) -> Rates | None:
    """Return the rates between two samples by the store's clock, or None if no time has passed."""
    seconds = (last.now - first.now).total_seconds()
    if seconds <= 0:
        return None

    def per_second(before: int, after: int) -> float:
        return max(0.0, (after - before) / seconds)

    return Rates(
        done=per_second(first.done, last.done),
        dead=per_second(first.dead, last.dead),
        added=per_second(_add_up(first.checkpoints).end, _add_up(last.checkpoints).end),
    )


def _add_up(checkpoints: Sequence[Checkpoint]) -> Checkpoint:
    return Checkpoint(
        partition=-1,
        position=sum(checkpoint.position for checkpoint in checkpoints),
        dead=sum(checkpoint.dead for checkpoint in checkpoints),
        end=sum(checkpoint.end for checkpoint in checkpoints),
    )


# JSON


def status_to_json(view: StatusView) -> dict[str, Any]:
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
    data["checkpoint"] = _checkpoint_to_json(_add_up(status.checkpoints))
    data["partitions"] = [_partition_to_json(part) for part in status.partitions]
    if view.backfill is not None:
        data["backfill"] = _backfill_to_json(view.backfill)
    if view.rates is not None:
        data["per_second"] = {name: round(getattr(view.rates, name), 3) for name in ("done", "dead", "added")}
    return data


def _partition_to_json(part: PartitionInfo) -> dict[str, Any]:
    return {
        "partition": part.partition,
        **{name: getattr(part, name) for name in COUNTERS},
        "checkpoint": _checkpoint_to_json(part.checkpoint),
    }


def _checkpoint_to_json(checkpoint: Checkpoint) -> dict[str, int]:
    return {
        "position": checkpoint.position,
        "end": checkpoint.end,
        "lag": checkpoint.lag,
        "dead": checkpoint.dead,
    }


def _backfill_to_json(progress: Progress) -> dict[str, Any]:
    return {
        "table": progress.about["table"],
        "key": progress.about["key_columns"],
        "covered": progress.key,
        "upto": progress.upto,
        "share": progress.share,
        "dead": progress.dead,
        "complete": progress.complete,
    }


def _describe_backfill(progress: Progress) -> Iterator[tuple[str, str]]:
    """Yield names and values that describe the progress of a backfill."""
    yield "backfill", f"{progress.about['table']} by {', '.join(progress.about['key_columns'])}"
    key = progress.key
    if key is None:
        yield "covered", "nothing yet"
    else:
        yield "covered", f"up to {key[0] if len(key) == 1 else format_json(list(key))}"
    if progress.share is not None:
        yield "share", f"{progress.share:.1%}"


# plain lines


def make_lines(view: StatusView, partitions: bool) -> Iterator[str]:
    """Yield `name<tab>value` lines, with one more for each partition if `partitions` is set."""
    status = view.status
    checkpoint = _add_up(status.checkpoints)
    yield f"store\t{escape(view.store)}"
    yield f"now\t{status.now.isoformat()}"
    yield f"paused\t{'yes' if status.paused else 'no'}"
    for name in COUNTERS:
        yield f"{name}\t{getattr(status, name)}"
    yield f"checkpoint\t{checkpoint.position}"
    yield f"end\t{checkpoint.end}"
    yield f"lag\t{status.lag}"
    yield f"next_ready_at\t{'' if status.next_ready_at is None else status.next_ready_at.isoformat()}"
    yield f"min_interval\t{status.min_interval:g}"
    yield f"concurrency\t{format_concurrency(status.concurrency)}"
    yield f"max_attempts\t{status.max_attempts}"
    if view.backfill is not None:
        for name, value in _describe_backfill(view.backfill):
            yield f"{name}\t{escape(value)}"
    if partitions:
        for part in status.partitions:
            counters = " ".join(f"{name}={getattr(part, name)}" for name in COUNTERS)
            yield (
                f"partition {part.partition}\t{counters} "
                f"checkpoint={part.checkpoint.position} end={part.checkpoint.end}"
            )


def make_line(view: StatusView) -> str:
    """Return one line for `--watch` without a terminal."""
    status = view.status
    line = f"{status.now:%Y-%m-%dT%H:%M:%SZ} " + " ".join(f"{name}={getattr(status, name)}" for name in COUNTERS)
    line += f" lag={status.lag} paused={'yes' if status.paused else 'no'}"
    if view.backfill is not None and view.backfill.share is not None:
        line += f" share={view.backfill.share:.3f}"
    return line if view.rates is None else f"{line} done_per_second={view.rates.done:.1f}"


# on a terminal


def make_panel(view: StatusView, partitions: bool) -> Panel:
    status = view.status
    parts: list[RenderableType] = [_make_counters(view), Text(), _make_settings(view)]
    total = status.waiting + status.done + status.dead
    if total:
        parts += [Text(), _make_progress(status, total)]
    if partitions:
        parts += [Text(), _make_partitions(status.partitions)]
    title = Text(escape(view.store), style="bold")
    if status.paused:
        title.append("  PAUSED", style="bold yellow")
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


def _make_counters(view: StatusView) -> Table:
    status, rates = view.status, view.rates
    notes = {
        "ready": "waiting for a worker" if not status.paused else "waiting for swath resume",
        "delayed": "waiting for a time",
        "claimed": "in flight",
        "inbox": "discovered; the next claim takes them in",
        "done": f"{rates.done:,.1f} a second" if rates else "",
        "dead": "see swath dead" if status.dead else "",
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


def _make_settings(view: StatusView) -> Table:
    status = view.status
    grid = Table.grid(padding=(0, 2))
    grid.add_column(no_wrap=True)
    grid.add_column()
    if view.backfill is not None:
        for name, value in _describe_backfill(view.backfill):
            grid.add_row(name, Text(escape(value)))
    checkpoint = _add_up(status.checkpoints)
    dead = f" ({checkpoint.dead:,} of them dead)" if checkpoint.dead else ""
    grid.add_row("checkpoint", f"{checkpoint.position:,} of {checkpoint.end:,} settled{dead}, lag {status.lag:,}")
    grid.add_row("partitions", f"{len(status.checkpoints):,}")
    grid.add_row("lane defaults", format_limits(status.min_interval, status.concurrency))
    grid.add_row("attempts", f"up to {status.max_attempts:,}")
    grid.add_row("next ready", _describe_next_ready(status))
    return grid


def _describe_next_ready(status: Status) -> str:
    if status.paused:
        return "paused: run swath resume"
    if status.next_ready_at is None:
        return "no item is waiting"
    if status.claimed == status.waiting:
        return "no item is waiting except those in flight"
    ahead = (status.next_ready_at - status.now).total_seconds()
    if ahead <= 0:
        return "now"
    # next_ready_at may be the end of a lease, and the item of that lease is usually settled earlier.
    sooner = ", or when an item in flight is settled" if status.claimed else ""
    return f"in {format_duration(ahead)}, {format_time(status.next_ready_at)}{sooner}"


def _make_progress(status: Status, total: int) -> Table:
    # If the checkpoint is at the end, the items that wait were all settled once and are due for another visit.
    settled = status.done + status.dead if status.lag or status.inbox else total
    grid = Table.grid(padding=(0, 2))
    share = 100 * settled / total
    percent = f"{share:.1f} %" if share < 99.95 or settled == total else "99.9 %"
    grid.add_row(ProgressBar(total=total, completed=settled, width=BAR_WIDTH), f"{percent} of {total:,} settled")
    return grid


def _make_partitions(partitions: Sequence[PartitionInfo]) -> Table:
    table = Table(box=None, pad_edge=False, header_style="cyan")
    for name in ("partition", *COUNTERS, "checkpoint", "end", "lag"):
        table.add_column(name, justify="right", no_wrap=True)
    for part in partitions:
        checkpoint = part.checkpoint
        numbers = [part.partition, *(getattr(part, name) for name in COUNTERS)]
        numbers += [checkpoint.position, checkpoint.end, checkpoint.lag]
        table.add_row(*(f"{number:,}" for number in numbers))
    return table
