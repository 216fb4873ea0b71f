"""`swath show`: print an archived page."""

from datetime import datetime
from typing import Annotated

import typer

from swath import MissingExtra
from swath.cli.command import check_optional_store, run_command
from swath.cli.parsers import parse_time


def show(
    url: Annotated[str, typer.Argument(metavar="URL", help="URL or host name")],
    out: Annotated[str, typer.Option("--out", "-o", metavar="DIR", help="Directory of the crawl")] = "crawl",
    store: Annotated[
        str | None,
        typer.Option(
            "--store",
            envvar="SWATH_STORE",
            show_envvar=True,
            metavar="STORE",
            show_default="that of the crawl in DIR",
            help="Frontier of the crawl",
        ),
    ] = None,
    headers: Annotated[bool, typer.Option("--headers", help="Only the status line and the headers")] = False,
    body: Annotated[bool, typer.Option("--body", help="Only the body, without its content coding")] = False,
    raw: Annotated[bool, typer.Option("--raw", help="Only the body, with the bytes as received")] = False,
    time: Annotated[
        datetime | None,
        typer.Option(
            "--time",
            parser=parse_time,
            metavar="TIME",
            show_default="the latest",
            help="Capture at this time or before, such as 2030-01-31T12:00:00Z",
        ),
    ] = None,
    all_captures: Annotated[bool, typer.Option("--all", help="List the captures instead of printing one")] = False,
    json: Annotated[bool, typer.Option("--json", help="Line of the page list; with --all, all lines")] = False,
) -> None:
    """Print an archived page: its status line, its headers and its decoded body.

    Exits with 1 if the archive does not have the page, and says why as far as the crawl knows.

    Examples:
        swath show https://example.com/about
        swath show example.com --headers --out news
        swath show https://example.com/logo.png --body > logo.png
    """
    run_command(store, _show(url, out, store, headers, body, raw, time, all_captures, json))


async def _show(
    url: str,
    out: str,
    store: str | None,
    headers: bool,
    body: bool,
    raw: bool,
    time: datetime | None,
    all_captures: bool,
    json: bool,
) -> int:
    try:
        from swath.cli.show_command import ShowCommand, choose_part
        from swath.crawl.settings_file import locate_crawl
    except ImportError as error:
        raise MissingExtra("`swath show` needs more packages: pip install 'swath[crawl]'") from error
    part = choose_part(headers=headers, body=body, raw=raw, all_captures=all_captures, json=json)
    command = ShowCommand(locate_crawl(out, check_optional_store(store)), part, time=time, all_captures=all_captures)
    return await command.run(url)
