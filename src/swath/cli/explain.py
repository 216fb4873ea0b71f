"""`swath explain`: where a key is, and why it is not being worked on."""

from collections.abc import Iterator, Mapping
from dataclasses import replace
from datetime import UTC, datetime
from typing import Annotated, Any

import typer
from rich.text import Text

from swath.cli.command import check_lane, open_frontier, run_command
from swath.cli.exit_codes import ExitCode
from swath.cli.formatting import escape, format_json
from swath.cli.options import JSONOption, StoreOption
from swath.cli.terminal import is_terminal, make_console, print_facts, print_json
from swath.core.status import Explanation
from swath.frontier import Frontier

CRAWL = "crawl settings"  # the fact that a crawl leaves in its frontier


def explain(
    key: Annotated[str, typer.Argument(metavar="KEY", help="The key of an item")],
    store: StoreOption = None,
    lane: Annotated[
        str | None,
        typer.Option("--lane", metavar="NAME", show_default=False, help="The lane, where a key is in several"),
    ] = None,
    json: JSONOption = False,
) -> None:
    """Say where an item is, and why it is not being worked on.

    One sentence, then the facts. Exits with 1 when the key was never added.
    """
    run_command(store, _explain(store, key, lane, json))


async def _explain(store: str | None, key: str, lane: str | None, json: bool) -> int:
    async with open_frontier(store) as frontier:
        found = await explain_key(frontier, key, lane=None if lane is None else check_lane(lane))
        if found.state == "unknown":
            found = await _refused(frontier, found)
    if json:
        print_json({"key": found.key, "state": found.state, "sentence": found.sentence, **found.data})
    else:
        _print(found)
    return ExitCode.NEGATIVE if found.state == "unknown" else ExitCode.OK


async def explain_key(frontier: Frontier, key: str, *, lane: str | None = None) -> Explanation:
    """Where a key is. Of one that was passed on from lane to lane, as pages of a crawl may be, where it is now."""
    found = await frontier.explain(key, lane=lane)
    match found.data.get("result"):
        case {"passed_on_to": str(passed)} if lane is None:
            return await frontier.explain(key, lane=passed)
    return found


async def _refused(frontier: Frontier, found: Explanation) -> Explanation:
    """A key that was never added, of a crawl: which of its rules keeps it out."""
    known = (await frontier.facts([CRAWL])).get(CRAWL)
    if known is None:
        return found
    try:
        from swath.crawl.urls.explain import explain_refusal
    except ImportError:  # a crawl that was made elsewhere
        return found
    rule, sentence = explain_refusal(found.key, known, year=datetime.now(UTC).year)
    return replace(found, sentence=f"{found.sentence} {sentence}", data={"refused": rule})


def _print(found: Explanation) -> None:
    if not is_terminal():
        print(escape(found.sentence))
    else:
        make_console().print(Text(escape(found.sentence), style="bold"))
    if found.data:
        print_facts(found.state, flat(found.data))


def flat(data: Mapping[str, Any], prefix: str = "") -> Iterator[tuple[str, str]]:
    """Facts as names and texts; a lane's are named `lane.waiting` and so on."""
    for name, value in data.items():
        match value:
            case dict() if name == "lane":
                yield from flat(value, "lane.")
            case None:
                yield prefix + name, "-"
            case bool():
                yield prefix + name, "yes" if value else "no"
            case str():
                yield prefix + name, value
            case _:
                yield prefix + name, format_json(value)
