"""The classes of commands, opening the store of a command, running it, and turning errors into one line and an exit
code.

The docstring of a command ends with a section `Examples:`, one command per line, which `--help` prints as it stands.
"""

import asyncio
import os
import sys
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager
from typing import Any

import typer
from typer.core import TyperCommand, TyperGroup

import swath
from swath import Frontier, InvalidStoreURL, SwathError
from swath.cli.exit_codes import ExitCode, get_exit_code
from swath.cli.formatting import mask_secrets
from swath.cli.store_argument import EXAMPLE, find_frontier, is_store, resolve_store
from swath.cli.terminal import print_error, print_line

EXAMPLES_MARK = "\n\nExamples:\n"


def split_examples(help_text: str | None) -> tuple[str, list[str]]:
    """Split a docstring into the help text and the examples."""
    text, _, examples = (help_text or "").partition(EXAMPLES_MARK)
    return text, [line.strip() for line in examples.splitlines() if line.strip()]


def print_examples(examples: list[str]) -> None:
    """Print examples below the help of a command. Only the terminal wraps them, so that they can be copied."""
    if examples:
        print_line("\n".join([" Examples:", "", *(f"   {example}" for example in examples), ""]))


class Command(TyperCommand):
    """A command whose help ends with examples."""

    def __init__(self, name: str | None, *, help: str | None = None, **options: Any) -> None:
        text, self.examples = split_examples(help)
        super().__init__(name, help=text, **options)

    def format_help(self, ctx: Any, formatter: Any) -> None:
        super().format_help(ctx, formatter)
        print_examples(self.examples)


class Group(TyperGroup):
    """A group of commands whose help ends with examples."""

    def __init__(self, *, help: str | None = None, **options: Any) -> None:
        text, self.examples = split_examples(help)
        super().__init__(help=text, **options)

    def format_help(self, ctx: Any, formatter: Any) -> None:
        super().format_help(ctx, formatter)
        print_examples(self.examples)


class GroupWithDefault(Group):
    """A group that runs its command `list` if the user names no command."""

    takes_argument = False  # whether any word that is not a command is an argument of `list`, or only a store

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        first = args[0] if args else "-"
        known = first in self.commands or first in ctx.help_option_names
        if not known and (first.startswith("-") or self.takes_argument or is_store(first) or {*"./"} & {*first}):
            args = ["list", *args]
        return super().parse_args(ctx, args)


def check_optional_store(store: str | None) -> str | None:
    """Return the URL of a store if the user named one."""
    return resolve_store(store) if store else None


@asynccontextmanager
async def open_frontier(store: str | None, *, create: bool = False, **options: Any) -> AsyncIterator[Frontier]:
    """Open the frontier that the user named. Only `swath add` and `swath db init` create it."""
    if create and not store:
        raise InvalidStoreURL(f"no store: give --store URL or set SWATH_STORE, for example --store {EXAMPLE}")
    url = resolve_store(store) if create else await find_frontier(store)
    async with swath.open(url, create=create, **options) as frontier:
        yield frontier


def check_lane(lane: str) -> str:
    """Return the name of a lane, or raise UsageError if a lane cannot have it."""
    swath.check_lane(lane)
    return lane


def run_command(
    store: str | None,
    work: Coroutine[Any, Any, int | None],
    *,
    interrupted: int = ExitCode.INTERRUPTED,
    loop: Callable[[], asyncio.AbstractEventLoop] | None = None,
) -> None:
    """Run a command and exit with the code that it returns.

    A SwathError becomes one line on standard error and an exit code. Any other exception is a bug and keeps its
    traceback. `interrupted` is the exit code after Ctrl-C.
    """
    try:
        with asyncio.Runner(loop_factory=loop) as runner:
            code = runner.run(work)
        sys.stdout.flush()
    except SwathError as error:
        message = ". ".join([str(error), *getattr(error, "__notes__", ())])
        print_error(mask_secrets(message, store or ""))
        code = get_exit_code(error)
    except BrokenPipeError:  # the reader has read enough, as in `swath dead | head`
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        code = ExitCode.OK
    except KeyboardInterrupt:
        code = interrupted
    finally:
        work.close()  # if the interrupt came before the first step
    if code:
        raise typer.Exit(code)
