"""`swath backfill`: a change to every row of a big table, safely, while it is in use."""

import json as json_
from collections.abc import Callable
from typing import Annotated

import typer

from swath.backfill.settings import BackfillSettings
from swath.cli.command import check_optional_store, run_command
from swath.cli.parsers import parse_duration
from swath.core.errors import MissingExtra

RANGE, CITIZEN, OUTPUT = "Which rows", "Good citizen", "Output"


def keys(text: str) -> list[str]:
    """A key as it is written on the command line: one value, or a JSON list of the values of several columns."""
    if text.startswith("["):
        try:
            found = json_.loads(text)
        except ValueError:
            raise typer.BadParameter(f'{text!r} is not JSON: a key of two columns is written like [7, "b"]') from None
        return [value if isinstance(value, str) else json_.dumps(value) for value in found]
    return [text]


def backfill(
    db: Annotated[
        str,
        typer.Option(
            "--db", metavar="URL", show_default=False, help="Where the table is: postgresql://… or sqlite:///app.db"
        ),
    ],
    table: Annotated[str, typer.Option("--table", metavar="NAME", show_default=False, help="Which table")],
    key: Annotated[
        str | None,
        typer.Option(
            "--key", metavar="COLUMNS", show_default="the primary key", help="Unique columns, such as id or tenant,id"
        ),
    ] = None,
    set_: Annotated[
        str | None,
        typer.Option("--set", metavar="SQL", show_default=False, help='As in "email_lower = lower(email)"'),
    ] = None,
    sql: Annotated[
        str | None,
        typer.Option(
            "--sql",
            metavar="SQL",
            show_default=False,
            help='A statement for each slice, as in "update … where id between :lo and :hi"',
        ),
    ] = None,
    handler: Annotated[
        str | None,
        typer.Option(
            "--run",
            metavar="MODULE:FUNCTION",
            show_default=False,
            help="Called with the rows of each slice and the connection of its transaction",
        ),
    ] = None,
    store: Annotated[
        str | None,
        typer.Option(
            "--store",
            metavar="URL",
            show_default="a schema beside the table",
            help="The frontier; only beside the table every row is changed exactly once",
        ),
    ] = None,
    name: Annotated[
        str | None,
        typer.Option("--name", metavar="NAME", show_default="swath_backfill_TABLE", help="What that schema is called"),
    ] = None,
    workers: Annotated[int, typer.Option("--workers", metavar="N", help="Slices at once in this process")] = 4,
    target_time: Annotated[
        float,
        typer.Option(
            "--target-time",
            parser=parse_duration,
            metavar="TIME",
            show_default="500ms",
            help="How long a slice is to take; a statement that takes much longer is ended, and done in parts",
        ),
    ] = 0.5,
    batch: Annotated[
        int, typer.Option("--batch", metavar="ROWS", help="Rows of the first slices; then the target time decides")
    ] = 1_000,
    timeout: Annotated[
        float,
        typer.Option(
            "--timeout", parser=parse_duration, metavar="TIME", show_default="10m", help="For a function of --run"
        ),
    ] = 600.0,
    lease: Annotated[
        float,
        typer.Option(
            "--lease",
            parser=parse_duration,
            metavar="TIME",
            show_default="60s",
            help="Time after which other processes take over the slices of a process that died",
        ),
    ] = 60.0,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Say what would be done, and change nothing")] = False,
    force: Annotated[
        bool, typer.Option("--force", help="Also where rows may be changed twice and that makes a difference")
    ] = False,
    where: Annotated[
        str | None,
        typer.Option(
            "--where",
            metavar="SQL",
            show_default=False,
            help='Only these rows, as in "email_lower is null"',
            rich_help_panel=RANGE,
        ),
    ] = None,
    first: Annotated[
        str | None,
        typer.Option(
            "--from", metavar="KEY", show_default="the beginning", help="Begin with this key", rich_help_panel=RANGE
        ),
    ] = None,
    last: Annotated[
        str | None,
        typer.Option(
            "--to", metavar="KEY", show_default="the last key now", help="End with this key", rich_help_panel=RANGE
        ),
    ] = None,
    follow: Annotated[
        bool,
        typer.Option("--follow", help="Go on with rows that are inserted later, until stopped", rich_help_panel=RANGE),
    ] = False,
    max_lag: Annotated[
        float | None,
        typer.Option(
            "--max-lag",
            parser=parse_duration,
            metavar="TIME",
            show_default="10s",
            help="Pause while a stand-by is further behind",
            rich_help_panel=CITIZEN,
        ),
    ] = 10.0,
    lag_query: Annotated[
        str | None,
        typer.Option(
            "--lag-query",
            metavar="SQL",
            show_default="the stand-bys of the server",
            help="What tells the lag, in seconds",
            rich_help_panel=CITIZEN,
        ),
    ] = None,
    max_active: Annotated[
        int | None,
        typer.Option(
            "--max-active",
            metavar="N",
            show_default="no limit",
            help="Pause while more other sessions are active",
            rich_help_panel=CITIZEN,
        ),
    ] = None,
    pause_file: Annotated[
        str | None,
        typer.Option(
            "--pause-file",
            metavar="FILE",
            show_default=False,
            help="Pause while this file exists",
            rich_help_panel=CITIZEN,
        ),
    ] = None,
    json: Annotated[
        bool, typer.Option("--json", help="Print progress and summary as JSON lines", rich_help_panel=OUTPUT)
    ] = False,
    quiet: Annotated[
        bool, typer.Option("--quiet", "-q", help="Only say what went wrong", rich_help_panel=OUTPUT)
    ] = False,
) -> None:
    """Change every row of a table in small slices, each in a transaction of its own.

    The same command goes on where it stopped, after Ctrl-C as after a crash; run it on several machines and they share
    the work. Exits with 0 when all is covered, with 1 when slices were given up or are left, 130 after Ctrl-C.
    """
    settings = lambda: BackfillSettings(  # noqa: E731  made where its errors are told
        db=db, table=table, key=_names(key), set=set_, sql=sql, run=handler, where=where,
        store=check_optional_store(store), name=name, first=_key(first), last=_key(last), follow=follow,
        force=force, workers=workers, batch=batch, target_time=target_time, timeout=timeout, lease=lease,
        max_lag=max_lag, lag_query=lag_query, max_active=max_active, pause_file=pause_file,
    )  # fmt: skip
    run_command(db, _backfill(settings, dry_run=dry_run, json=json, quiet=quiet))


def _names(text: str | None) -> tuple[str, ...] | None:
    return None if text is None else tuple(name.strip() for name in text.split(","))


def _key(text: str | None) -> tuple[str, ...] | None:
    return None if text is None else tuple(keys(text))


async def _backfill(settings: Callable[[], BackfillSettings], *, dry_run: bool, json: bool, quiet: bool) -> int:
    try:
        from swath.cli.backfilling import Backfilling
    except ImportError as error:
        raise MissingExtra("backfills need some more packages: pip install 'swath[backfill]'") from error
    backfilling = Backfilling(settings(), json=json, quiet=quiet)
    return await (backfilling.dry_run() if dry_run else backfilling.run())
