"""The status of a frontier as a panel, as plain lines and as JSON."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from rich.panel import Panel
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

from swath import Checkpoint, PartitionInfo, Status
from swath.cli.formatting import format_concurrency, format_duration, format_limits, format_time, pluralize
from swath.cli.status_job import PLAIN, JobView, Kind
from swath.cli.status_waits import UNKNOWN, Waits
from swath.cli.terminal import make_console, make_panel, print_facts, print_table

COUNTERS = ("ready", "delayed", "claimed", "inbox", "done", "dead", "lanes")
STYLES = {"done": "green", "dead": "red", "claimed": "cyan"}
BAR_WIDTH = 40

Pairs = list[tuple[str, str | Text]]


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
    job: JobView = PLAIN
    waits: Waits = UNKNOWN
    rates: Rates | None = None


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


def to_json(view: StatusView) -> dict[str, Any]:
    status, waits = view.status, view.waits
    data: dict[str, Any] = {"store": view.store, "now": status.now.isoformat(), "paused": status.paused}
    data |= {name: getattr(status, name) for name in COUNTERS}
    data |= {"waiting": status.waiting, "lag": status.lag, "lag_seconds": status.lag_seconds}
    data["next_ready_at"] = None if status.next_ready_at is None else status.next_ready_at.isoformat()
    data["defaults"] = {
        "min_interval": status.min_interval,
        "concurrency": status.concurrency,
        "max_attempts": status.max_attempts,
    }
    data["checkpoint"] = _checkpoint_to_json(_add_up(status.checkpoints))
    data["partitions"] = [_partition_to_json(part) for part in status.partitions]
    data["settled_share"] = _compute_settled_share(status)
    data["waits"] = {
        "ready": None if waits.ready is None else dict(waits.ready),
        "paused_lanes": waits.paused_lanes,
        "delayed": None if waits.delayed is None else dict(waits.delayed),
    }
    data["kind"] = view.job.kind
    if view.job.kind != Kind.PLAIN:
        data[view.job.kind] = dict(view.job.data)
    if view.rates is not None:
        data["per_second"] = {name: round(getattr(view.rates, name), 3) for name in ("done", "dead", "added")}
    return data


def _partition_to_json(part: PartitionInfo) -> dict[str, Any]:
    return {
        "partition": part.partition,
        **{name: getattr(part, name) for name in COUNTERS},
        "checkpoint": _checkpoint_to_json(part.checkpoint),
        "lag_seconds": part.lag_seconds,
    }


def _checkpoint_to_json(checkpoint: Checkpoint) -> dict[str, int]:
    return {
        "position": checkpoint.position,
        "end": checkpoint.end,
        "lag": checkpoint.lag,
        "dead": checkpoint.dead,
    }


# plain lines


def list_facts(view: StatusView, partitions: bool) -> Iterator[tuple[str, str]]:
    """Yield names and values, with one more for each partition if `partitions` is set."""
    status = view.status
    checkpoint = _add_up(status.checkpoints)
    yield "store", view.store
    yield "kind", view.job.kind
    yield "now", status.now.isoformat()
    yield "paused", "yes" if status.paused else "no"
    for name in COUNTERS:
        yield name, f"{getattr(status, name)}"
    yield "checkpoint", f"{checkpoint.position}"
    yield "end", f"{checkpoint.end}"
    yield "lag", f"{status.lag}"
    yield "lag_seconds", "" if status.lag_seconds is None else f"{status.lag_seconds:.0f}"
    yield "next_ready_at", "" if status.next_ready_at is None else status.next_ready_at.isoformat()
    yield "min_interval", f"{status.min_interval:g}"
    yield "concurrency", format_concurrency(status.concurrency)
    yield "max_attempts", f"{status.max_attempts}"
    yield from view.job.pairs
    if view.job.share is not None:
        yield "share", f"{view.job.share:.1%}"
    if partitions:
        for part in status.partitions:
            counters = " ".join(f"{name}={getattr(part, name)}" for name in COUNTERS)
            checkpoint = part.checkpoint
            yield f"partition {part.partition}", f"{counters} checkpoint={checkpoint.position} end={checkpoint.end}"


def make_line(view: StatusView) -> str:
    """Return one line for `--watch` without a terminal."""
    status = view.status
    line = f"{status.now:%Y-%m-%dT%H:%M:%SZ} " + " ".join(f"{name}={getattr(status, name)}" for name in COUNTERS)
    line += f" lag={status.lag} paused={'yes' if status.paused else 'no'}"
    if view.job.share is not None:
        line += f" share={view.job.share:.3f}"
    return line if view.rates is None else f"{line} done_per_second={view.rates.done:.1f}"


# on a terminal


def print_status(view: StatusView, partitions: bool, *, argument: str = "") -> None:
    """Print the status, then what to run next. `argument` names the store in those commands."""
    print_facts(
        _make_title(view),
        _list_pairs(view),
        header=_make_progress(view),
        note=format_time(view.status.now),
        border="yellow" if view.status.paused else "cyan",
    )
    if partitions:
        columns, rows = _list_partitions(view.status.partitions)
        print_table(columns, rows, right=columns)
    console = make_console()
    for command, meaning in _list_next_steps(view):
        console.print(Text(f"{command}{argument}") + Text(f"  # {meaning}", style="dim"))


def make_live_panel(view: StatusView, partitions: bool) -> Panel:
    """Return the panel of `--watch`."""
    pairs = _list_pairs(view)
    if partitions:
        columns, rows = _list_partitions(view.status.partitions)
        pairs += [(f"partition {row[0]}", "  ".join(_join_cells(columns[1:], row[1:]))) for row in rows]
    return make_panel(
        _make_title(view),
        pairs,
        header=_make_progress(view),
        note=format_time(view.status.now),
        border="yellow" if view.status.paused else "cyan",
    )


def _join_cells(columns: Sequence[str], row: Sequence[str]) -> Iterator[str]:
    return (f"{name} {cell}" for name, cell in zip(columns, row, strict=True) if cell != "0")


def _make_title(view: StatusView) -> str:
    kind = "" if view.job.kind == Kind.PLAIN else f"  {view.job.kind}"
    return f"{view.store}{kind}{'  PAUSED' if view.status.paused else ''}"


def _list_next_steps(view: StatusView) -> Iterator[tuple[str, str]]:
    if view.status.paused:
        yield "swath resume", "end the pause"
    elif view.waits.paused_lanes:
        yield "swath lanes --paused", "list the paused lanes"
    if view.status.dead:
        yield "swath dead", f"list the dead {view.job.noun} with their reasons"


def _list_pairs(view: StatusView) -> Pairs:
    """Return names and values: the job, the counters, the settings."""
    status = view.status
    pairs: Pairs = [*view.job.pairs, *([("", "")] if view.job.pairs else [])]
    width = max(len(f"{getattr(status, name):,}") for name in COUNTERS)
    for name in COUNTERS:
        count = getattr(status, name)
        if count or name not in ("inbox", "delayed"):
            style = "dim" if not count else f"bold {STYLES.get(name, '')}"
            note = Text(f"  {_describe_counter(name, view)}".rstrip(), style="dim")
            pairs.append((name, Text(f"{count:>{width},}", style=style) + note))
    pairs.append(("", ""))
    if view.job.kind != Kind.BACKFILL:  # its keys say how far it is; positions of its slices do not
        pairs += ((name, Text(value)) for name, value in _describe_checkpoint(status))
    if status.lag_seconds is not None:
        pairs.append(("oldest", Text(f"not settled for {format_duration(status.lag_seconds)}")))
    pairs.append(("lane defaults", Text(format_limits(status.min_interval, status.concurrency))))
    pairs.append(("attempts", Text(f"up to {status.max_attempts:,}")))
    pairs.append(("next ready", Text(_describe_next_ready(view))))
    return pairs


def _describe_counter(name: str, view: StatusView) -> str:
    status = view.status
    if name == "done":
        return f"{view.rates.done:,.1f} a second" if view.rates else ""
    if name == "lanes":
        paused = view.waits.paused_lanes
        return f"{paused:,} of them paused" if paused else ""
    if not getattr(status, name):
        return ""
    match name:
        case "ready":
            return _describe_ready(view)
        case "delayed":
            return _describe_delayed(view)
        case "claimed":
            return "in flight"
        case "inbox":
            return "discovered; the next claim takes them in"
        case _:
            return "given up"


def _describe_ready(view: StatusView) -> str:
    """Say what the ready items wait for."""
    lanes = view.waits.ready
    noun = "" if view.job.kind == Kind.PLAIN else f"{view.job.noun} "
    if view.status.paused:
        return f"{noun}waiting for the end of the pause"
    if lanes is None:
        return f"{noun}waiting for a worker, or for their lane if it is paused or resting"
    causes = [
        (lanes.get("ready", 0) + lanes.get("empty", 0), "for a worker"),
        (lanes.get("resting", 0), "for the interval of their lane"),
        (lanes.get("busy", 0), "for others in their lane"),
        (lanes.get("paused", 0), "in a paused lane"),
        (lanes.get("blocked", 0), "in a blocked lane"),
    ]
    found = [(count, cause) for count, cause in causes if count]
    if len(found) == 1:
        return f"{noun}waiting {found[0][1]}"
    return f"{noun}waiting: {', '.join(f'{count:,} {cause}' for count, cause in found)}"


def _describe_delayed(view: StatusView) -> str:
    causes = view.waits.delayed
    if causes is None:
        return f"{view.job.noun} waiting for a time"
    names = {"retry": "to be tried again", "revisit": "done, to be visited again", "start": "not to be started yet"}
    found = [(count, names[cause]) for cause, count in causes.items() if count]
    if len(found) == 1:
        return found[0][1]
    return ", ".join(f"{count:,} {name}" for count, name in found)


def _describe_checkpoint(status: Status) -> Iterator[tuple[str, str]]:
    """Say up to where everything is settled. With several partitions, each has a checkpoint of its own."""
    total = _add_up(status.checkpoints)
    dead = f", {total.dead:,} of them dead" if total.dead else ""
    if not total.end:
        yield "checkpoint", "no item was ever added"
    elif not status.lag:
        yield "checkpoint", f"at the end: everything was settled{dead}"
    elif len(status.checkpoints) == 1:
        upto = f": everything up to there is settled{dead}" if total.position else ""
        yield "checkpoint", f"at position {total.position:,} of {total.end:,}{upto}"
    else:
        behind = [checkpoint for checkpoint in status.checkpoints if checkpoint.lag]
        worst = max(behind, key=lambda checkpoint: checkpoint.lag)
        ahead = len(status.checkpoints) - len(behind)
        yield "checkpoint", f"at the end in {ahead:,} of {len(status.checkpoints):,} partitions{dead}"
        yield "behind most", f"partition {worst.partition}, by {pluralize(worst.lag, 'position')}"
        return
    if len(status.checkpoints) > 1:
        yield "partitions", f"{len(status.checkpoints):,}"


def _describe_next_ready(view: StatusView) -> str:
    status = view.status
    if status.paused:
        return "paused"
    if status.next_ready_at is None:
        return "only after a pause ends" if status.ready else f"no {view.job.noun.removesuffix('s')} is waiting"
    if status.claimed == status.waiting:
        return f"no {view.job.noun.removesuffix('s')} is waiting except those in flight"
    ahead = (status.next_ready_at - status.now).total_seconds()
    if ahead <= 0:
        return "now"
    # next_ready_at may be the end of a lease, and the item of that lease is usually settled earlier.
    sooner = ", or when an item in flight is settled" if status.claimed else ""
    return f"in {format_duration(ahead)}, {format_time(status.next_ready_at)}{sooner}"


def _compute_settled_share(status: Status) -> float | None:
    """Return the share of items that were settled, or None if there are no items."""
    total = status.waiting + status.done + status.dead
    if not total:
        return None
    # If the checkpoint is at the end, the items that wait were all settled once and are due for another visit.
    return (status.done + status.dead) / total if status.lag or status.inbox else 1.0


def _make_progress(view: StatusView) -> Table | None:
    """Return a bar with the share of the job that is done."""
    status, share, text = view.status, view.job.share, view.job.share_of
    if share is None:
        share = _compute_settled_share(status)
        text = f"of {status.waiting + status.done + status.dead:,} {view.job.noun} settled"
    if share is None:
        return None
    percent = f"{share:.1%}" if share < 0.9995 or share == 1 else "99.9%"
    grid = Table.grid(padding=(0, 2))
    grid.add_row(ProgressBar(total=1.0, completed=share, width=BAR_WIDTH), f"{percent} {text}")
    grid.add_row("")
    return grid


def _list_partitions(partitions: Sequence[PartitionInfo]) -> tuple[Sequence[str], list[list[str]]]:
    rows = []
    for part in partitions:
        checkpoint = part.checkpoint
        numbers = [part.partition, *(getattr(part, name) for name in COUNTERS)]
        rows.append([f"{number:,}" for number in (*numbers, checkpoint.position, checkpoint.end, checkpoint.lag)])
    return ("partition", *COUNTERS, "checkpoint", "end", "lag"), rows
