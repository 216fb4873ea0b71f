"""Opening the store of a command, running the command, and turning errors into one line and an exit code."""

import asyncio
import os
import sys
from collections.abc import Callable, Coroutine
from typing import Any

import typer
from typer.core import TyperGroup

import swath
from swath import InvalidStoreURL, Opening, StoreURL, SwathError
from swath.cli.exit_codes import ExitCode, get_exit_code
from swath.cli.formatting import mask_secrets
from swath.cli.terminal import print_error

EXAMPLE = "sqlite:///work.db"


class GroupWithDefault(TyperGroup):
    """A group that runs its command `list` if the user names no command."""

    takes_argument = False  # whether a word that is not a command is an argument of `list`

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        first = args[0] if args else "-"
        known = first in self.commands or first in ctx.help_option_names
        if not known and (first.startswith("-") or self.takes_argument):
            args = ["list", *args]
        return super().parse_args(ctx, args)


def require_store(store: str | None) -> str:
    """Return the URL of the store, or raise InvalidStoreURL if there is none that another process can open."""
    if not store:
        raise InvalidStoreURL(f"no store: give --store URL or set SWATH_STORE, for example --store {EXAMPLE}")
    if StoreURL.parse(store).scheme == "memory":
        raise InvalidStoreURL(f"{store} lives inside one process: give a persistent store, such as {EXAMPLE}")
    return store


def check_optional_store(store: str | None) -> str | None:
    """Check the URL of a store if the user gave one."""
    return require_store(store) if store else None


def open_frontier(store: str | None, *, create: bool = False, **options: Any) -> Opening:
    """Open the frontier. Only `swath add` and `swath db init` create it."""
    return swath.open(require_store(store), create=create, **options)


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
