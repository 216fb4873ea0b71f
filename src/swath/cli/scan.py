"""`swath scan`: a look at every record or file, and a proof of what was looked at."""

from typing import Annotated

import typer

from swath import MissingExtra
from swath.cli.command import check_optional_store, run_command
from swath.cli.parsers import parse_duration
from swath.scan.settings import ScanSettings

COMPARE, OUTPUT = "Comparing", "Output"


def scan(
    source: Annotated[
        str,
        typer.Option(
            "--source",
            "-s",
            metavar="SOURCE",
            show_default=False,
            help="postgresql://…/db#table, sqlite:///f.db#table, a directory, s3://bucket/prefix, "
            "records.jsonl[.gz|.zst] or data.parquet",
        ),
    ],
    check: Annotated[
        str | None,
        typer.Option(
            "--check",
            metavar="MODULE:FUNCTION",
            show_default=False,
            help="Called with each record; returns nothing or findings",
        ),
    ] = None,
    fix: Annotated[
        str | None,
        typer.Option(
            "--fix",
            metavar="MODULE:FUNCTION",
            show_default=False,
            help="Called with each record that has findings, which is then checked again",
        ),
    ] = None,
    recheck: Annotated[bool, typer.Option("--recheck", help="Only the keys that have open findings")] = False,
    store: Annotated[
        str | None,
        typer.Option(
            "--store",
            envvar="SWATH_STORE",
            show_envvar=True,
            metavar="URL",
            show_default="FILE.swath.db",
            help="The frontier; processes that share it share the scan, each with its own --out",
        ),
    ] = None,
    workers: Annotated[int, typer.Option("--workers", metavar="N", help="Slices looked at at once")] = 4,
    timeout: Annotated[
        float,
        typer.Option(
            "--timeout", parser=parse_duration, metavar="TIME", show_default="60s", help="For the check of a record"
        ),
    ] = 60.0,
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
    against: Annotated[
        str | None,
        typer.Option(
            "--against",
            metavar="SOURCE",
            show_default=False,
            help="Compare with this table or tree instead of checking",
            rich_help_panel=COMPARE,
        ),
    ] = None,
    key: Annotated[
        str | None,
        typer.Option(
            "--key",
            metavar="COLUMNS",
            show_default="the primary key",
            help="What names a row of a table, such as id or tenant,id",
            rich_help_panel=COMPARE,
        ),
    ] = None,
    columns: Annotated[
        str | None,
        typer.Option(
            "--columns",
            metavar="COLUMNS",
            show_default="all; of files size,hash",
            help="What --against compares; of files size, mtime and hash",
            rich_help_panel=COMPARE,
        ),
    ] = None,
    out: Annotated[
        str,
        typer.Option(
            "--out",
            "-o",
            metavar="FILE",
            help="Where findings go: .jsonl or .parquet; the same again resumes",
            rich_help_panel=OUTPUT,
        ),
    ] = "findings.jsonl",
    fresh: Annotated[
        bool,
        typer.Option("--fresh", help="Forget what FILE and its store hold; begin anew", rich_help_panel=OUTPUT),
    ] = False,
    json: Annotated[
        bool, typer.Option("--json", help="Print progress and summary as JSON lines", rich_help_panel=OUTPUT)
    ] = False,
    quiet: Annotated[
        bool, typer.Option("--quiet", "-q", help="Only say what went wrong", rich_help_panel=OUTPUT)
    ] = False,
) -> None:
    """Look at every record of a table, a tree of files or a file of records, and say what is not as it should be.

    The same command goes on where it stopped, after Ctrl-C as after a crash: each finding is in the output once. Exits
    with 0 only when everything was looked at and nothing is open, with 1 when findings are open, something was given
    up or is left, 130 after Ctrl-C.
    """
    work = _scan(
        source=source, against=against, check=check, fix=fix, key=key, columns=_names(columns), out=out, store=store,
        workers=workers, timeout=timeout, lease=lease, recheck=recheck, fresh=fresh, json=json, quiet=quiet,
    )  # fmt: skip
    run_command(store, work)


def _names(text: str | None) -> tuple[str, ...]:
    return tuple(name.strip() for name in (text or "").split(",") if name.strip())


async def _scan(*, store: str | None, json: bool, quiet: bool, **given: object) -> int:
    try:
        from swath.cli.scan_command import Scanning
    except ImportError as error:
        raise MissingExtra("scanning needs some more packages: pip install 'swath[scan]'") from error
    settings = ScanSettings(store=check_optional_store(store), **given)  # type: ignore[arg-type]
    return await Scanning(settings, json=json, quiet=quiet).run()
