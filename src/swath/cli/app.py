"""The application: its commands, its version and its exit codes."""

import os
import sys
from collections.abc import Iterable
from importlib import import_module
from io import BufferedWriter, FileIO, TextIOWrapper
from typing import Annotated, Any, TextIO

import typer
from typer.core import TyperGroup

import swath
from swath.cli.exit_codes import MEANINGS, ExitCode
from swath.cli.terminal import print_error

COMMANDS = ("crawl", "backfill", "scan", "export", "status", "add", "explain", "lanes", "dead", "pause", "resume", "db")
EPILOG = "Exit codes:\n\n" + "\n".join(f"- `{code:d}` {meaning}" for code, meaning in MEANINGS.items())


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


def load(names: Iterable[str] = COMMANDS) -> typer.Typer:
    """The application with these commands, each a module with a function of its name or an application of its own."""
    for name in names:
        module = import_module(f"swath.cli.{name}")
        if hasattr(module, "app"):
            app.add_typer(module.app, name=name)
        else:
            app.command(name)(getattr(module, name))
    return app


def _named(words: Iterable[str]) -> Iterable[str]:
    """The command that is asked for, or all of them: to load them takes longer than most take to run."""
    first = next((word for word in words if not word.startswith("-")), "")
    return [first] if first in COMMANDS else COMMANDS


class Output(FileIO):
    """Standard output, which remembers why it could not be written to."""

    failure: OSError | None = None

    def write(self, data: Any) -> int | None:  # type: ignore[override]
        try:
            return super().write(data)
        except OSError as error:
            self.failure = error
            raise


def run() -> int:
    """Run the command. What could not be written is an error like others, whichever command it was."""
    if sys.stdin is None:
        os.open(os.devnull, os.O_RDONLY)  # or a file of ours would have its number
    if sys.stderr is None:
        sys.stderr = open(os.devnull, "w")  # noqa: SIM115  as long as the process
    if sys.stdout is None:
        print_error("standard output is closed: send it to a file or to /dev/null")
        return ExitCode.USAGE
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")  # a key may hold what this terminal cannot show
    output = _watched(sys.stdout)
    code: int | str | None = ExitCode.OK
    try:
        try:
            load(_named(sys.argv[1:]))(prog_name="swath")
        except SystemExit as ended:  # as typer ends
            code = ended.code
        sys.stdout.flush()
    except OSError as error:
        if output is None or error is not output.failure:
            raise
        os.dup2(os.open(os.devnull, os.O_WRONLY), output.fileno())  # or Python would try again at its end
        if not isinstance(error, BrokenPipeError):
            print_error(f"standard output cannot be written to: {error.strerror}")
            return ExitCode.USAGE
    return code if isinstance(code, int) else ExitCode.OK


def _watched(stream: TextIO) -> Output | None:
    """Put an Output where standard output goes."""
    if not isinstance(stream, TextIOWrapper):
        return None
    output = Output(stream.fileno(), "w", closefd=False)
    sys.stdout = TextIOWrapper(
        output if isinstance(stream.buffer, FileIO) else BufferedWriter(output),  # as PYTHONUNBUFFERED says
        encoding=stream.encoding,
        errors=stream.errors,
        line_buffering=stream.line_buffering,
        write_through=stream.write_through,
    )
    return output
