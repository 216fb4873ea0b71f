"""`swath extract`: run handlers over the archive of a crawl."""

from typing import Annotated

import typer

from swath import MissingExtra, UsageError
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
    failed: Annotated[
        bool, typer.Option("--failed", help="Repair the pages whose handler failed: settle them, with their items")
    ] = False,
    handler: Annotated[
        str | None, typer.Option("--handler", metavar="NAME", help="Only pages with this handler now")
    ] = None,
    all_visits: Annotated[bool, typer.Option("--all", help="Every visit of a page, not only the last one")] = False,
    log_file: LogFileOption = None,
    log_level: LogLevelOption = None,
    log_format: LogFormatOption = None,
) -> None:
    """Run handlers over the archive of a crawl, without a network: after a fix, or for more fields.

    The crawl stays as it is, and links are not followed. With --failed, the crawl is repaired: pages whose handler
    failed are settled, their items are added to those of the crawl, and the next crawl fetches what they link to.
    --items then writes all items of the crawl. Works while the crawl runs. Exits with 1 if a handler failed for some
    page.

    Examples:
        swath extract --run books:crawler --items books.jsonl
        swath extract --run books:crawler --failed
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
        from swath.cli.repair_command import RepairCommand
    except ImportError as error:
        raise MissingExtra("`swath extract` needs more packages: pip install 'swath[crawl]'") from error
    store = check_optional_store(store)
    if failed:
        if all_visits:
            raise UsageError("--failed repairs the last visit of each page: leave out --all")
        return await RepairCommand(
            out, store, run=run, select=select, items=items, handler=handler, log=LogSettings(*log)
        ).run()
    command = ExtractCommand(
        out,
        store,
        run=run,
        select=select,
        items=items,
        handler=handler,
        all_visits=all_visits,
        log=LogSettings(*log),
    )
    return await command.run()
