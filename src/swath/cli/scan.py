"""`swath scan`: check every record or file of a source, and report what is wrong."""

from typing import Annotated

import typer

from swath import MissingExtra
from swath.cli.command import check_optional_store, run_command
from swath.cli.options import LogFileOption, LogFormatOption, LogLevelOption
from swath.cli.parsers import parse_duration
from swath.logs.settings import LogSettings
from swath.scan.settings import ScanSettings
from swath.tables.canonical.relaxations import ALL, RELAXATIONS

COMPARE, OUTPUT = "Comparison", "Output"


def scan(
    source: Annotated[
        str,
        typer.Option(
            "--source",
            "-s",
            metavar="SOURCE",
            show_default=False,
            help="What to scan: postgresql://…/db#table, sqlite:///f.db#table, a directory, s3://bucket/prefix, "
            "records.jsonl[.gz|.zst] or data.parquet",
        ),
    ],
    check: Annotated[
        str | None,
        typer.Option(
            "--check",
            metavar="MODULE:FUNCTION",
            show_default=False,
            help="Function to call with each record; returns None or findings",
        ),
    ] = None,
    fix: Annotated[
        str | None,
        typer.Option(
            "--fix",
            metavar="MODULE:FUNCTION",
            show_default=False,
            help="Function to call with each record that has findings; the record is then checked again",
        ),
    ] = None,
    recheck: Annotated[bool, typer.Option("--recheck", help="Check only records with open findings again")] = False,
    store: Annotated[
        str | None,
        typer.Option(
            "--store",
            envvar="SWATH_STORE",
            show_envvar=True,
            metavar="URL",
            show_default="FILE.swath.db",
            help="Frontier URL; processes with the same store share the scan, each with its own --out",
        ),
    ] = None,
    workers: Annotated[int, typer.Option("--workers", metavar="N", help="Slices checked concurrently")] = 4,
    timeout: Annotated[
        float,
        typer.Option(
            "--timeout",
            parser=parse_duration,
            metavar="TIME",
            show_default="60s",
            help="Maximum time to check one record",
        ),
    ] = 60.0,
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
    against: Annotated[
        str | None,
        typer.Option(
            "--against",
            metavar="SOURCE",
            show_default=False,
            help="Table or tree to compare the source with, instead of --check",
            rich_help_panel=COMPARE,
        ),
    ] = None,
    key: Annotated[
        str | None,
        typer.Option(
            "--key",
            metavar="COLUMNS",
            show_default="the primary key",
            help="Columns of a unique index that order the table, such as id or tenant,id",
            rich_help_panel=COMPARE,
        ),
    ] = None,
    columns: Annotated[
        str | None,
        typer.Option(
            "--columns",
            metavar="COLUMNS",
            show_default="all; for files: size,hash",
            help="Columns that --against compares; for files: size, mtime, hash",
            rich_help_panel=COMPARE,
        ),
    ] = None,
    loose: Annotated[
        list[str] | None,
        typer.Option(
            "--loose",
            metavar="NAMES",
            show_default="compare strictly",
            help="Values of different types that --against takes as equal: "
            f"{', '.join(RELAXATIONS)} or {ALL}; may be repeated",
            rich_help_panel=COMPARE,
        ),
    ] = None,
    out: Annotated[
        str,
        typer.Option(
            "--out",
            "-o",
            metavar="FILE",
            help="File for the findings, .jsonl or .parquet; repeat it to resume",
            rich_help_panel=OUTPUT,
        ),
    ] = "findings.jsonl",
    fresh: Annotated[
        bool,
        typer.Option("--fresh", help="Discard FILE and its store and start over", rich_help_panel=OUTPUT),
    ] = False,
    json: Annotated[
        bool, typer.Option("--json", help="Print progress and summary as JSON lines", rich_help_panel=OUTPUT)
    ] = False,
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="Print errors only", rich_help_panel=OUTPUT)] = False,
    log_file: LogFileOption = None,
    log_level: LogLevelOption = None,
    log_format: LogFormatOption = None,
) -> None:
    """Check every record of a table, a tree of files or a file of records, and write what is wrong to a file.

    Run the same command again to resume after Ctrl-C or a crash; each finding is written once. Exits with 0 if
    everything was scanned and no finding is open, with 1 if findings are open or slices are dead or left, with 130
    after Ctrl-C.

    Examples:
        swath scan --source postgresql://user@host/app#orders --check checks:check_order
        swath scan --source /srv/files --against /mnt/copy --columns size,hash
        swath scan --source events.jsonl.gz --check checks:check_event --out findings.parquet
    """
    work = _scan(
        source=source, against=against, check=check, fix=fix, key=key, columns=_split_names(columns),
        loose=_split_names(",".join(loose or ())), out=out, store=store, workers=workers, timeout=timeout, lease=lease,
        recheck=recheck, fresh=fresh, json=json, quiet=quiet, log=(log_file, log_level, log_format),
    )  # fmt: skip
    run_command(store, work)


def _split_names(text: str | None) -> tuple[str, ...]:
    return tuple(name.strip() for name in (text or "").split(",") if name.strip())


async def _scan(
    *, store: str | None, log: tuple[str | None, str | None, str | None], json: bool, quiet: bool, **given: object
) -> int:
    try:
        from swath.cli.scan_command import ScanCommand
    except ImportError as error:
        raise MissingExtra("swath scan needs more packages: pip install 'swath[scan]'") from error
    settings = ScanSettings(store=check_optional_store(store), **given)  # type: ignore[arg-type]
    return await ScanCommand(settings, log=LogSettings(*log), json=json, quiet=quiet).run()
