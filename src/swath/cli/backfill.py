"""`swath backfill`: change every row of a large table while it is in use."""

import json as json_
from collections.abc import Callable
from typing import Annotated

import typer

from swath import MissingExtra
from swath.backfill.settings import BackfillSettings
from swath.cli.command import check_optional_store, run_command
from swath.cli.options import LogFileOption, LogFormatOption, LogLevelOption
from swath.cli.parsers import parse_duration
from swath.logs.settings import LogSettings

ROWS, THROTTLE, OUTPUT = "Rows", "Throttling", "Output"


def parse_key(text: str) -> list[str]:
    """Parse a key of the command line: one value, or a JSON list with a value per column."""
    if text.startswith("["):
        try:
            found = json_.loads(text)
        except ValueError:
            raise typer.BadParameter(f'{text!r} is not JSON; write a key of two columns like [7, "b"]') from None
        return [value if isinstance(value, str) else json_.dumps(value) for value in found]
    return [text]


def backfill(
    db: Annotated[
        str,
        typer.Option(
            "--db", metavar="URL", show_default=False, help="Database of the table: postgresql://… or sqlite:///app.db"
        ),
    ],
    table: Annotated[str, typer.Option("--table", metavar="NAME", show_default=False, help="Table to change")],
    key: Annotated[
        str | None,
        typer.Option(
            "--key",
            metavar="COLUMNS",
            show_default="the primary key",
            help="Columns of a unique index that order the table, such as id or tenant,id",
        ),
    ] = None,
    set_: Annotated[
        str | None,
        typer.Option(
            "--set", metavar="SQL", show_default=False, help='Assignments, such as "email_lower = lower(email)"'
        ),
    ] = None,
    sql: Annotated[
        str | None,
        typer.Option(
            "--sql",
            metavar="SQL",
            show_default=False,
            help='Statement to run for each slice, such as "update … where id between :lo and :hi"',
        ),
    ] = None,
    handler: Annotated[
        str | None,
        typer.Option(
            "--run",
            metavar="MODULE:FUNCTION",
            show_default=False,
            help="Function to call with the rows of each slice and the connection of its transaction",
        ),
    ] = None,
    store: Annotated[
        str | None,
        typer.Option(
            "--store",
            metavar="URL",
            show_default="a schema in the table's database",
            help="Frontier URL; rows change exactly once only if it is in the table's database",
        ),
    ] = None,
    name: Annotated[
        str | None,
        typer.Option(
            "--name", metavar="NAME", show_default="swath_backfill_TABLE", help="Name of the frontier's schema"
        ),
    ] = None,
    workers: Annotated[
        int, typer.Option("--workers", metavar="N", help="Slices processed concurrently by this process")
    ] = 4,
    target_time: Annotated[
        float,
        typer.Option(
            "--target-time",
            parser=parse_duration,
            metavar="TIME",
            show_default="500ms",
            help="Duration of a slice to aim for; a statement that takes much longer is cancelled and split",
        ),
    ] = 0.5,
    batch: Annotated[
        int,
        typer.Option(
            "--batch", metavar="ROWS", help="Rows in the first slices, before --target-time determines the size"
        ),
    ] = 1_000,
    timeout: Annotated[
        float,
        typer.Option(
            "--timeout",
            parser=parse_duration,
            metavar="TIME",
            show_default="10m",
            help="Maximum time for one call of the --run function",
        ),
    ] = 600.0,
    lease: Annotated[
        float,
        typer.Option(
            "--lease",
            parser=parse_duration,
            metavar="TIME",
            show_default="60s",
            help="Time until other processes take over the slices of a process that died",
        ),
    ] = 60.0,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Print what would be done and change nothing")] = False,
    force: Annotated[
        bool,
        typer.Option("--force", help="Run even if rows could be changed twice, or the table changed since the start"),
    ] = False,
    where: Annotated[
        str | None,
        typer.Option(
            "--where",
            metavar="SQL",
            show_default=False,
            help='Condition for the rows to change, such as "email_lower is null"',
            rich_help_panel=ROWS,
        ),
    ] = None,
    first: Annotated[
        str | None,
        typer.Option(
            "--from", metavar="KEY", show_default="the first key", help="First key to change", rich_help_panel=ROWS
        ),
    ] = None,
    last: Annotated[
        str | None,
        typer.Option(
            "--to",
            metavar="KEY",
            show_default="the last key at the start",
            help="Last key to change",
            rich_help_panel=ROWS,
        ),
    ] = None,
    follow: Annotated[
        bool,
        typer.Option(
            "--follow", help="Continue with rows that are inserted later, until stopped", rich_help_panel=ROWS
        ),
    ] = False,
    max_lag: Annotated[
        float | None,
        typer.Option(
            "--max-lag",
            parser=parse_duration,
            metavar="TIME",
            show_default="10s",
            help="Maximum replication lag; pause while a standby is further behind",
            rich_help_panel=THROTTLE,
        ),
    ] = 10.0,
    lag_query: Annotated[
        str | None,
        typer.Option(
            "--lag-query",
            metavar="SQL",
            show_default="the server's standbys",
            help="Query that returns the lag in seconds",
            rich_help_panel=THROTTLE,
        ),
    ] = None,
    max_active: Annotated[
        int | None,
        typer.Option(
            "--max-active",
            metavar="N",
            show_default="no limit",
            help="Maximum active sessions of other applications; pause while there are more",
            rich_help_panel=THROTTLE,
        ),
    ] = None,
    pause_file: Annotated[
        str | None,
        typer.Option(
            "--pause-file",
            metavar="FILE",
            show_default=False,
            help="File that pauses the backfill while it exists",
            rich_help_panel=THROTTLE,
        ),
    ] = None,
    json: Annotated[
        bool, typer.Option("--json", help="Print progress and summary as JSON lines", rich_help_panel=OUTPUT)
    ] = False,
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="Print errors only", rich_help_panel=OUTPUT)] = False,
    log_file: LogFileOption = None,
    log_level: LogLevelOption = None,
    log_format: LogFormatOption = None,
) -> None:
    """Change every row of a table in small slices, each in its own transaction.

    Run the same command again to resume after Ctrl-C or a crash. Run it on several machines to share the work. Exits
    with 0 if all rows are covered, with 1 if slices are dead or left, with 130 after Ctrl-C.

    Examples:
        swath backfill --db postgresql://user@host/app --table users --set "email_lower = lower(email)" --dry-run
        swath backfill --db postgresql://user@host/app --table users --set "active = true" --where "active is null"
        swath backfill --db sqlite:///app.db --table events --run tasks:convert --workers 2
    """
    settings = lambda: BackfillSettings(  # noqa: E731  so that run_command reports its errors
        db=db, table=table, key=_split_columns(key), set=set_, sql=sql, run=handler, where=where,
        store=check_optional_store(store), name=name, first=_parse_key(first), last=_parse_key(last), follow=follow,
        force=force, workers=workers, batch=batch, target_time=target_time, timeout=timeout, lease=lease,
        max_lag=max_lag, lag_query=lag_query, max_active=max_active, pause_file=pause_file,
    )  # fmt: skip
    log = lambda: LogSettings(log_file, log_level, log_format)  # noqa: E731  likewise
    run_command(db, _backfill(settings, log, dry_run=dry_run, json=json, quiet=quiet))


def _split_columns(text: str | None) -> tuple[str, ...] | None:
    return None if text is None else tuple(name.strip() for name in text.split(","))


def _parse_key(text: str | None) -> tuple[str, ...] | None:
    return None if text is None else tuple(parse_key(text))


async def _backfill(
    settings: Callable[[], BackfillSettings],
    log: Callable[[], LogSettings],
    *,
    dry_run: bool,
    json: bool,
    quiet: bool,
) -> int:
    try:
        from swath.cli.backfill_command import BackfillCommand
    except ImportError as error:
        raise MissingExtra("swath backfill needs more packages: pip install 'swath[backfill]'") from error
    command = BackfillCommand(settings(), log=log(), json=json, quiet=quiet)
    return await (command.dry_run() if dry_run else command.run())
