"""Options that several commands share."""

from typing import Annotated, Any

import typer

from swath import UNCHANGED
from swath.cli.parsers import parse_duration
from swath.logs.settings import FILE_HELP, FORMAT_HELP, FORMATS, LEVEL_HELP, LEVELS

StoreOption = Annotated[
    str | None,
    typer.Option(
        "--store",
        envvar="SWATH_STORE",
        show_envvar=True,
        show_default=False,
        metavar="STORE",
        help="Frontier: the directory of a crawl, a database file, the findings of a scan, or a URL, such as "
        "sqlite:///work.db or postgresql://user@host/db; ?schema=name selects one of several",
    ),
]
StoreArgument = Annotated[
    str | None,
    typer.Argument(metavar="STORE", show_default=False, help="Frontier, like --store, which it takes precedence over"),
]
JSONOption = Annotated[bool, typer.Option("--json", help="Print JSON with stable names and without colours")]
LOG = "Log"
LogFileOption = Annotated[
    str | None,
    typer.Option("--log-file", metavar="FILE", show_default=False, help=FILE_HELP, rich_help_panel=LOG),
]
LogLevelOption = Annotated[
    str | None,
    typer.Option("--log-level", metavar="|".join(LEVELS), show_default="info", help=LEVEL_HELP, rich_help_panel=LOG),
]
LogFormatOption = Annotated[
    str | None,
    typer.Option("--log-format", metavar="|".join(FORMATS), show_default="text", help=FORMAT_HELP, rich_help_panel=LOG),
]
ListLimitOption = Annotated[
    int, typer.Option("--limit", "-n", min=0, metavar="N", help="Maximum number of lines; 0 for all")
]
OnlyLaneOption = Annotated[
    str | None, typer.Option("--lane", metavar="NAME", show_default=False, help="Only items of this lane")
]
CreateOption = Annotated[bool, typer.Option("--create", help="Create the lane if it does not exist")]
MinIntervalOption = Annotated[
    float | None,
    typer.Option(
        "--min-interval",
        parser=parse_duration,
        metavar="TIME",
        show_default=False,
        help="Default for lanes: minimum time between two items, such as 1.5, 70s or 10m",
    ),
]
ConcurrencyOption = Annotated[
    int | None,
    typer.Option(
        "--concurrency",
        metavar="N",
        show_default=False,
        help="Default for lanes: maximum items in flight; 0 for no limit",
    ),
]


def get_concurrency(given: Any) -> Any:
    """Return the argument for `concurrency=`: on the command line 0 means no limit, and no option means unchanged."""
    return UNCHANGED if given is None else given or None


MaxAttemptsOption = Annotated[
    int | None,
    typer.Option("--max-attempts", metavar="N", show_default=False, help="Maximum attempts before an item is dead"),
]
PartitionsOption = Annotated[
    int | None,
    typer.Option(
        "--partitions",
        metavar="N",
        show_default="1 on SQLite, 64 on PostgreSQL",
        help="Number of partitions of a new frontier; it cannot be changed later",
    ),
]
