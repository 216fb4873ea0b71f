"""`swath extract`: run handlers over the archive of a crawl."""

from typing import Annotated

import typer

from swath import MissingExtra
from swath.cli.command import check_optional_store, run_command
from swath.cli.options import LogFileOption, LogFormatOption, LogLevelOption
from swath.logs.settings import LogSettings


def extract(
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
    run: Annotated[
        str | None,
        typer.Option(
            "--run",
            metavar="MODULE:NAME",
            show_default="the --select of the crawl",
            help="Crawler, or function for every page",
        ),
    ] = None,
    select: Annotated[
        list[str] | None,
        typer.Option("--select", metavar="NAME=CSS[@ATTRIBUTE]", help="Field of an item, as in `swath crawl`"),
    ] = None,
    items: Annotated[
        str | None,
        typer.Option(
            "--items",
            metavar="FILE",
            show_default="standard output, as JSON Lines",
            help="File for the items: .jsonl, .csv or .parquet",
        ),
    ] = None,
    failed: Annotated[bool, typer.Option("--failed", help="Only pages whose handler failed in the crawl")] = False,
    handler: Annotated[
        str | None, typer.Option("--handler", metavar="NAME", help="Only pages with this handler now")
    ] = None,
    all_visits: Annotated[bool, typer.Option("--all", help="Every visit of a page, not only the last one")] = False,
    log_file: LogFileOption = None,
    log_level: LogLevelOption = None,
    log_format: LogFormatOption = None,
) -> None:
    """Run handlers over the archive of a crawl, without a network: after a fix, or for more fields.

    Links that the handlers yield are not followed, and the frontier stays as it is. Works while the crawl runs. Exits
    with 1 if a handler failed for some page.

    Examples:
        swath extract --run books:crawler --items books.jsonl
        swath extract --run books:crawler --failed --items repaired.jsonl
        swath extract --out news --select title=h1 --items titles.csv
    """
    log = (log_file, log_level, log_format)
    run_command(store, _extract(out, store, run, select or [], items, failed, handler, all_visits, log))


async def _extract(
    out: str,
    store: str | None,
    run: str | None,
    select: list[str],
    items: str | None,
    failed: bool,
    handler: str | None,
    all_visits: bool,
    log: tuple[str | None, str | None, str | None],
) -> int:
    try:
        from swath.cli.extract_command import ExtractCommand
    except ImportError as error:
        raise MissingExtra("`swath extract` needs more packages: pip install 'swath[crawl]'") from error
    command = ExtractCommand(
        out, check_optional_store(store), run=run, select=select, items=items, failed=failed, handler=handler,
        all_visits=all_visits, log=LogSettings(*log),
    )  # fmt: skip
    return await command.run()
