"""The application: its commands, its version and its exit codes."""

import sys
from io import TextIOWrapper
from typing import Annotated, Any

import typer
from typer.core import TyperGroup

import swath
from swath.cli import add, backfill, crawl, db, dead, explain, export, lanes, pause, resume, scan, status
from swath.cli.exits import MEANING, Exit

COMMANDS = ("crawl", "backfill", "scan", "export", "status", "add", "explain", "lanes", "dead", "pause", "resume", "db")
EPILOG = "Exit codes:\n\n" + "\n".join(f"- `{code:d}` {meaning}" for code, meaning in MEANING.items())


class Root(TyperGroup):
    def list_commands(self, ctx: Any) -> list[str]:
        """In the order in which one comes to need them."""
        return sorted(super().list_commands(ctx), key=COMMANDS.index)


app = typer.Typer(
    name="swath",
    cls=Root,
    rich_markup_mode="markdown",
    help="A durable work frontier: look at it, add to it, steer it.",
    epilog=EPILOG,
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)


def _version(wanted: bool) -> None:
    if wanted:
        print(f"swath {swath.__version__}")
        raise typer.Exit


@app.callback()
def root(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Print the version and leave")
    ] = False,
) -> None:
    pass


app.command("crawl")(crawl.crawl)
app.command("backfill")(backfill.backfill)
app.command("scan")(scan.scan)
app.command("export")(export.export)
app.command("status")(status.status)
app.command("add")(add.add)
app.command("explain")(explain.explain)
app.add_typer(lanes.app, name="lanes")
app.add_typer(dead.app, name="dead")
app.command("pause")(pause.pause)
app.command("resume")(resume.resume)
app.add_typer(db.app, name="db")


def run() -> int:
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")  # a key may hold what this terminal cannot show
    app(prog_name="swath")
    return Exit.DONE
