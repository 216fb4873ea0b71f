"""`swath explain`: where a key is, and why it is not being worked on."""

from collections.abc import Iterator, Mapping
from typing import Annotated, Any

import typer
from rich.text import Text

from swath.cli import show
from swath.cli.common import JSONOption, StoreOption, lane_name, opened, run
from swath.cli.exits import Exit
from swath.core.insight import Explanation


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
    run(store, _explain(store, key, lane, json))


async def _explain(store: str | None, key: str, lane: str | None, json: bool) -> int:
    async with opened(store) as frontier:
        found = await frontier.explain(key, lane=None if lane is None else lane_name(lane))
    if json:
        show.document({"key": found.key, "state": found.state, "sentence": found.sentence, **found.data})
    else:
        _print(found)
    return Exit.NO if found.state == "unknown" else Exit.DONE


def _print(found: Explanation) -> None:
    if not show.on_terminal():
        print(show.clean(found.sentence))
    else:
        show.console().print(Text(show.clean(found.sentence), style="bold"))
    if found.data:
        show.facts(found.state, flat(found.data))


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
                yield prefix + name, show.compact(value)
