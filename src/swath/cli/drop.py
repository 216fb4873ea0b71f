"""`swath drop`: settle waiting items without handling them, and undo it."""

import re
import shlex
from collections.abc import Callable
from dataclasses import dataclass
from typing import Annotated, NoReturn

import typer

from swath import DoneItem, Frontier, PendingItem, UsageError, mask_password
from swath.cli.command import open_frontier, run_command
from swath.cli.confirm import confirm
from swath.cli.exit_codes import ExitCode
from swath.cli.explain import explain_key
from swath.cli.formatting import pluralize
from swath.cli.lane_names import find_lane, print_unknown_lane
from swath.cli.options import JSONOption, StoreOption
from swath.cli.terminal import make_console, print_error, print_json, print_line

DROPPED = "dropped"  # the key in the result of a dropped item


def drop(
    keys: Annotated[
        list[str] | None, typer.Argument(metavar="[KEY...]", show_default=False, help="Keys of waiting items")
    ] = None,
    store: StoreOption = None,
    lanes: Annotated[
        list[str] | None,
        typer.Option("--lane", metavar="NAME", show_default=False, help="Only items of this lane; may be repeated"),
    ] = None,
    pattern: Annotated[
        str | None,
        typer.Option(
            "--pattern",
            metavar="RE",
            show_default=False,
            help="Only items whose key contains a match of this regular expression",
        ),
    ] = None,
    undo: Annotated[bool, typer.Option("--undo", help="Make items ready again that were dropped")] = False,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only count the items")] = False,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Do not ask before dropping")] = False,
    json: JSONOption = False,
) -> None:
    """Drop waiting items: they are done, although no worker handles them.

    Select items by key, --lane or --pattern. The command counts them first, and asks before it drops them. Items in
    flight are not touched. Items that wait for a revisit are not visited again. Exits with 1 if no item is waiting.

    A dropped item keeps its key, so that nothing adds it again. With --undo, the same selection makes dropped items
    ready again.

    Examples:
        swath drop --lane tired.example.com --store crawl/
        swath drop --pattern '/calendar/' --dry-run --store crawl/
        swath drop --undo --lane tired.example.com --store crawl/
    """
    selection = Selection(keys or [], lanes or [], _compile(pattern))
    selection.check()
    if undo:
        run_command(store, _undo(store, selection, dry_run, json))
        return
    counts = Counts()
    run_command(store, _count(store, selection, counts))
    text = counts.describe(selection)
    if not json:
        print_line(text)
    if dry_run:
        if json:
            print_json(counts.as_dict())
    elif yes or _confirm(f"{text} Drop them?" if json else "Drop them?"):
        run_command(store, _drop(store, selection, json))
    else:
        print_error("nothing was dropped")
        raise typer.Exit(ExitCode.NEGATIVE)


def _confirm(question: str) -> bool:
    """Ask the user. The question stands outside the event loop, where Ctrl-C ends it at once."""
    try:
        return confirm(
            question,
            refusal="nothing was dropped",
            advice="add --yes to drop these items, or --dry-run to only count them",
        )
    except UsageError as error:
        _refuse(str(error))
    except KeyboardInterrupt:
        raise typer.Exit(ExitCode.INTERRUPTED) from None


@dataclass(frozen=True, slots=True)
class Selection:
    """The items that the user names."""

    keys: list[str]
    lanes: list[str]
    pattern: re.Pattern[str] | None

    def check(self) -> None:
        if self.keys and self.pattern is not None:
            _refuse("--pattern cannot be combined with keys: leave out one of them")
        if not self.keys and not self.lanes and self.pattern is None:
            _refuse("no items selected: give keys, --lane NAME or --pattern RE")

    @property
    def each_lane(self) -> list[str] | list[None]:
        return list(dict.fromkeys(self.lanes)) or [None]

    def matches(self, item: PendingItem | DoneItem) -> bool:
        return self.pattern is None or self.pattern.search(item.key) is not None

    @property
    def where(self) -> Callable[[PendingItem | DoneItem], bool] | None:
        return None if self.pattern is None else self.matches

    @property
    def options(self) -> str:
        """The selection as it is typed."""
        words = [word for lane in self.lanes for word in ("--lane", lane)]
        words += ["--pattern", self.pattern.pattern] if self.pattern else []
        return shlex.join([*words, *self.keys])

    def describe(self) -> str:
        text = f" of lane {self.lanes[0]}" if len(self.lanes) == 1 else ""
        text = f" of {len(self.lanes):,} lanes" if len(self.lanes) > 1 else text
        return text + (f" whose key matches {self.pattern.pattern!r}" if self.pattern else "")


@dataclass(slots=True)
class Counts:
    """How many of the selected items wait, by state, and how many are in flight."""

    ready: int = 0
    delayed: int = 0
    revisits: int = 0
    in_flight: int = 0

    def add(self, state: str, *, revisit: bool) -> None:
        match state:
            case "claimed":
                self.in_flight += 1
            case "delayed" if revisit:
                self.revisits += 1
            case "delayed":
                self.delayed += 1
            case "ready" | "inbox":
                self.ready += 1

    @property
    def waiting(self) -> int:
        return self.ready + self.delayed + self.revisits

    def as_dict(self) -> dict[str, int]:
        return {
            "ready": self.ready,
            "delayed": self.delayed,
            "revisits": self.revisits,
            "in_flight": self.in_flight,
            "dropped": 0,
        }

    def describe(self, selection: Selection) -> str:
        parts = [f"{self.ready:,} ready"] if self.ready else []
        parts += [f"{self.delayed:,} delayed"] if self.delayed else []
        parts += [f"{self.revisits:,} done and waiting for a revisit"] if self.revisits else []
        verb = "is" if self.waiting == 1 else "are"
        text = f"{pluralize(self.waiting, 'item')}{selection.describe()} {verb} waiting"
        text += f": {', '.join(parts)}" if parts else ""
        if self.in_flight:
            text += f"; {self.in_flight:,} in flight {'is' if self.in_flight == 1 else 'are'} not touched"
        return f"{text}."


async def _count(store: str | None, selection: Selection, counts: Counts) -> int:
    """Count the selected items. Take in discovered items first, so that they count."""
    async with open_frontier(store) as frontier:
        if not await _check_lanes(frontier, selection):
            return ExitCode.NEGATIVE
        with make_console(stderr=True).status("counting"):
            for lane in selection.each_lane:
                if selection.keys:
                    await _count_keys(frontier, selection.keys, lane, counts)
                else:
                    await frontier.empty_inbox(lane)
                    async for item in frontier.pending(lane=lane, revisits=True):
                        if selection.matches(item):
                            counts.add(item.state, revisit=item.revisit)
    if not counts.waiting:
        print_error(counts.describe(selection))
        return ExitCode.NEGATIVE
    return ExitCode.OK


async def _count_keys(frontier: Frontier, keys: list[str], lane: str | None, counts: Counts) -> None:
    for key in keys:
        found = await explain_key(frontier, key, lane=lane)
        counts.add(found.state, revisit="settled_at" in found.data)
        if found.state not in ("ready", "delayed", "inbox"):
            print_error(f"not waiting: {found.sentence}")


async def _check_lanes(frontier: Frontier, selection: Selection) -> bool:
    """Return whether the lanes exist, and print which ones do not."""
    exist = True
    for lane in selection.lanes:
        if await find_lane(frontier, lane) is None:
            await print_unknown_lane(frontier, lane)
            exist = False
    return exist


async def _drop(store: str | None, selection: Selection, json: bool) -> int:
    reason = f"swath drop {selection.options}"
    dropped = 0
    async with open_frontier(store) as frontier:
        with make_console(stderr=True).status("dropping"):
            for lane in selection.each_lane:
                dropped += await frontier.drop(selection.keys or None, lane=lane, where=selection.where, reason=reason)
    if json:
        print_json({"dropped": dropped})
    else:
        print_line(f"{pluralize(dropped, 'item')} dropped. To make them ready again:")
        print_line(
            f"swath drop --undo {selection.options}"
            + (f" --store {shlex.quote(mask_password(store))}" if store else "")
        )
    return ExitCode.OK if dropped else ExitCode.NEGATIVE


async def _undo(store: str | None, selection: Selection, dry_run: bool, json: bool) -> int:
    reopened = 0
    async with open_frontier(store) as frontier:
        if not await _check_lanes(frontier, selection):
            return ExitCode.NEGATIVE
        with make_console(stderr=True).status("reading done items"):
            for lane in selection.each_lane:
                if dry_run:
                    async for item in frontier.results(lane=lane, result_key=DROPPED):
                        reopened += selection.matches(item) and (not selection.keys or item.key in selection.keys)
                else:
                    reopened += await frontier.reopen_done(
                        selection.keys or None, result_key=DROPPED, lane=lane, where=selection.where
                    )
    if json:
        print_json({"dropped": reopened} if dry_run else {"reopened": reopened})
    elif not reopened:
        print_error(f"no item{selection.describe()} was dropped")
    elif dry_run:
        print_line(f"{pluralize(reopened, 'dropped item')}{selection.describe()} would be made ready again.")
    else:
        print_line(f"{pluralize(reopened, 'dropped item')}{selection.describe()} made ready again.")
    return ExitCode.OK if reopened else ExitCode.NEGATIVE


def _compile(pattern: str | None) -> re.Pattern[str] | None:
    try:
        return None if pattern is None else re.compile(pattern)
    except re.error as error:
        _refuse(f"--pattern {pattern!r} is not a regular expression: {error}")


def _refuse(message: str) -> NoReturn:
    """Print what is wrong with the command, and exit."""
    print_error(message)
    raise typer.Exit(ExitCode.USAGE)
