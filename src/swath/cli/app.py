"""The application: it loads the command that the user names, runs it and returns its exit code."""

import os
import sys
from collections.abc import Iterable
from importlib import import_module
from io import BufferedWriter, FileIO, TextIOWrapper
from typing import Annotated, Any, TextIO

import typer

import swath
from swath.cli import complete
from swath.cli.command import Command, Group
from swath.cli.exit_codes import MEANINGS, ExitCode
from swath.cli.terminal import escape_standard_error, print_error, print_line

# In the order of `swath --help`
COMMANDS = (
    "crawl",
    "backfill",
    "scan",
    "extract",
    "export",
    "show",
    "shell",
    "status",
    "add",
    "explain",
    "lanes",
    "items",
    "claims",
    "dead",
    "drop",
    "pause",
    "resume",
    "audit",
    "db",
    "doctor",
    "completion",
)
# Typer has a copy of click, or imports click, depending on its version.
CLICK_EXCEPTION: Any = next(base for base in typer.BadParameter.__mro__ if base.__name__ == "ClickException")
EPILOG = "Exit codes:\n\n" + "\n".join(f"- `{code:d}` {meaning}" for code, meaning in MEANINGS.items())


class RootGroup(Group):
    def list_commands(self, ctx: Any) -> list[str]:
        """List the commands in the order of COMMANDS instead of the alphabet."""
        return sorted(super().list_commands(ctx), key=COMMANDS.index)


app = typer.Typer(
    name="swath",
    cls=RootGroup,
    rich_markup_mode="markdown",
    help="""A durable work frontier: run jobs on it, inspect it and control it.

    Examples:
        swath crawl https://example.com
        swath status crawl/
        swath COMMAND --help
    """,
    epilog=EPILOG,
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)


def _print_version(wanted: bool) -> None:
    if wanted:
        print_line(f"swath {swath.__version__}")
        raise typer.Exit


@app.callback()
def root(
    version: Annotated[
        bool, typer.Option("--version", callback=_print_version, is_eager=True, help="Print the version and exit")
    ] = False,
) -> None:
    pass


def load_commands(names: Iterable[str] = COMMANDS) -> typer.Typer:
    """Add commands to the application and return it.

    The module of a command has either a function with the name of the command or, for a group of commands, an `app`.
    """
    for name in names:
        module = import_module(f"swath.cli.{name}")
        if hasattr(module, "app"):
            for command in module.app.registered_commands:
                command.cls = Command
            app.add_typer(module.app, name=name)
        else:
            app.command(name, cls=Command)(getattr(module, name))
    return app


def _select_commands(words: Iterable[str]) -> Iterable[str]:
    """Return the command that the words name, or all commands. Loading all takes longer than most commands run."""
    first = next((word for word in words if not word.startswith("-")), "")
    return [first] if first in COMMANDS else COMMANDS


class WatchedStdout(FileIO):
    """Standard output that remembers the error of a failed write."""

    failure: OSError | None = None

    def write(self, data: Any) -> int | None:  # type: ignore[override]
        try:
            return super().write(data)
        except OSError as error:
            self.failure = error
            raise


def run() -> int:
    """Run the command in `sys.argv` and return its exit code. Report a failed write to standard output as an error."""
    if complete.VARIABLE in os.environ:
        return complete.run(load_commands, COMMANDS)
    escape_standard_error()
    if sys.stdin is None:
        os.open(os.devnull, os.O_RDONLY)  # otherwise the first file that swath opens becomes file descriptor 0
    if sys.stderr is None:
        sys.stderr = open(os.devnull, "w")  # noqa: SIM115  stays open until the process ends
    if sys.stdout is None:
        print_error("standard output is closed: redirect it to a file or to /dev/null")
        return ExitCode.USAGE
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")  # a key may contain characters that the terminal cannot show
    output = _watch_stdout(sys.stdout)
    code: int | str | None = ExitCode.OK
    try:
        try:
            code = _call(load_commands(_select_commands(sys.argv[1:])))
        except SystemExit as exit:
            code = exit.code
        sys.stdout.flush()
    except OSError as error:
        if output is None or error is not output.failure:
            raise
        os.dup2(os.open(os.devnull, os.O_WRONLY), output.fileno())  # otherwise Python writes again when it exits
        if not isinstance(error, BrokenPipeError):
            print_error(f"cannot write to standard output: {error.strerror}")
            return ExitCode.USAGE
    return code if isinstance(code, int) else ExitCode.OK


def _call(application: typer.Typer) -> int | None:
    """Run the command, and print what is wrong with its arguments. Typer would print them unescaped, in a box."""
    try:
        # Not by calling the application, which would replace sys.excepthook.
        code: int | None = typer.main.get_command(application).main(prog_name="swath", standalone_mode=False)
    except CLICK_EXCEPTION as error:
        context = getattr(error, "ctx", None)
        if context is not None and type(error).__name__ == "NoArgsIsHelpError":
            return ExitCode.USAGE  # creating the exception has printed the help
        if context is not None:
            print_line(f"{context.get_usage()}\nTry '{context.command_path} --help' for help.\n", stderr=True)
        print_error(error.format_message())
        code = error.exit_code
    except typer.Abort:
        code = ExitCode.NEGATIVE
    return code


def _watch_stdout(stream: TextIO) -> WatchedStdout | None:
    """Replace `sys.stdout` by a stream that writes to a WatchedStdout, with the same encoding and buffering."""
    if not isinstance(stream, TextIOWrapper):
        return None
    output = WatchedStdout(stream.fileno(), "w", closefd=False)
    sys.stdout = TextIOWrapper(
        output if isinstance(stream.buffer, FileIO) else BufferedWriter(output),  # PYTHONUNBUFFERED gives a FileIO
        encoding=stream.encoding,
        errors=stream.errors,
        line_buffering=stream.line_buffering,
        write_through=stream.write_through,
    )
    return output
