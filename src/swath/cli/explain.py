"""`swath explain`: show the state of an item, and why no worker has started it."""

from collections.abc import Iterator, Mapping
from dataclasses import replace
from datetime import UTC, datetime
from typing import Annotated, Any

import typer
from rich.text import Text

from swath import Explanation, Frontier
from swath.cli.command import check_lane, open_frontier, run_command
from swath.cli.exit_codes import ExitCode
from swath.cli.formatting import escape, format_json
from swath.cli.options import JSONOption, StoreOption
from swath.cli.terminal import is_terminal, make_console, print_facts, print_json, print_line

MAX_STEPS = 8  # a crawl tries up to four forms of a URL, and each may be passed on to another lane
CRAWL_SETTINGS = "crawl settings"  # a crawl stores its settings under this key
CRAWL_CODE = "crawl code"  # and what --run or --select named under this one


def explain(
    key: Annotated[str, typer.Argument(metavar="KEY", help="Key of the item")],
    store: StoreOption = None,
    lane: Annotated[
        str | None,
        typer.Option(
            "--lane", metavar="NAME", show_default=False, help="Lane of the item, if several lanes have this key"
        ),
    ] = None,
    json: JSONOption = False,
) -> None:
    """Show the state of an item, and why no worker has started it.

    Prints one sentence, then the details. Exits with 1 if the key was never added.

    Examples:
        swath explain https://example.com/page --store crawl/
        swath explain key-17 --lane tenant-3
        swath explain key-17 --json
    """
    run_command(store, _explain(store, key, lane, json))


async def _explain(store: str | None, key: str, lane: str | None, json: bool) -> int:
    async with open_frontier(store) as frontier:
        found = await explain_in_crawl(frontier, key, lane=None if lane is None else check_lane(lane))
    if json:
        print_json({"key": found.key, "state": found.state, "sentence": found.sentence, **found.data})
    else:
        _print(found)
    return ExitCode.NEGATIVE if found.state == "unknown" else ExitCode.OK


async def explain_key(frontier: Frontier, key: str, *, lane: str | None = None) -> Explanation:
    """Explain a key. If a crawl passed the page on to another lane or to another form of its URL, explain it there."""
    found = await frontier.explain(key, lane=lane)
    failed: list[str] = []
    for _ in range(MAX_STEPS if lane is None else 0):
        match found.data.get("result"):
            case {"passed_on_to": str(passed)}:
                found = await frontier.explain(found.key, lane=passed)
            case {"fallback": str(form), "error": error}:
                failed.append(f"{found.key} could not be reached ({error}), so {form} was tried.")
                found = await frontier.explain(form)
            case _:
                break
    if not failed:
        return found
    if found.state == "dead":  # the reason names the other forms
        failed = [f"{key} could not be reached in any form."]
    return replace(found, sentence=" ".join([*failed, found.sentence]))


async def explain_in_crawl(frontier: Frontier, key: str, *, lane: str | None = None) -> Explanation:
    """Explain a key. If it is unknown and the frontier belongs to a crawl, name the rule that excludes it."""
    found = await explain_key(frontier, key, lane=lane)
    return await _explain_for_crawl(frontier, found) if found.state == "unknown" else found


async def _explain_for_crawl(frontier: Frontier, found: Explanation) -> Explanation:
    """If the frontier belongs to a crawl, explain the page that the key means, or the rule that excludes it."""
    facts = await frontier.facts([CRAWL_SETTINGS, CRAWL_CODE])
    if (settings := facts.get(CRAWL_SETTINGS)) is None:
        return found
    try:
        from swath.crawl.handlers.select import NAME as SELECT
        from swath.crawl.start import read_start_seeds
        from swath.crawl.urls.explain import explain_refusal
        from swath.crawl.urls.normalise import parse_seed
    except ImportError:  # the crawl ran in another installation, and the extra is missing here
        return found
    if (url := parse_seed(found.key)) not in (None, found.key):
        page = await explain_key(frontier, url)
        if page.state != "unknown":
            return page
    started = [url async for urls in read_start_seeds(frontier) for url in urls]
    rule, sentence = explain_refusal(
        found.key,
        settings,
        year=datetime.now(UTC).year,
        started=started,
        has_handlers=facts.get(CRAWL_CODE, {"run": SELECT})["run"] != SELECT,
    )
    return replace(found, sentence=f"{found.sentence} {sentence}", data={"refused": rule})


def _print(found: Explanation) -> None:
    if not is_terminal():
        print_line(found.sentence)
    else:
        make_console().print(Text(escape(found.sentence), style="bold"))
    if found.data:
        print_facts(found.state, flatten(found.data))


def flatten(data: Mapping[str, Any], prefix: str = "") -> Iterator[tuple[str, str]]:
    """Yield details as names and texts; those of the lane are named `lane.waiting` and so on."""
    for name, value in data.items():
        match value:
            case dict() if name == "lane":
                yield from flatten(value, "lane.")
            case None:
                yield prefix + name, "-"
            case bool():
                yield prefix + name, "yes" if value else "no"
            case str():
                yield prefix + name, value
            case _:
                yield prefix + name, format_json(value)
