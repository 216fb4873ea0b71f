"""What all commands share: the store option, opening it, and turning errors into one line and an exit code."""

import asyncio
import os
import sys
from collections.abc import Callable, Coroutine
from typing import Annotated, Any

import typer
from typer.core import TyperGroup

import swath
from swath.cli import show, values
from swath.cli.exits import Exit, exit_code
from swath.core import codec
from swath.core.errors import InvalidStoreURL, SwathError
from swath.opening import Opening, StoreURL

EXAMPLE = "sqlite:///work.db"

StoreOption = Annotated[
    str | None,
    typer.Option(
        "--store",
        envvar="SWATH_STORE",
        show_envvar=True,
        show_default=False,
        metavar="URL",
        help="The frontier: sqlite:///work.db, postgresql://user@host/db; with ?schema=name, one of several there",
    ),
]
JSONOption = Annotated[bool, typer.Option("--json", help="Print JSON: no colours, stable names")]
MinIntervalOption = Annotated[
    float | None,
    typer.Option(
        "--min-interval",
        parser=values.duration,
        metavar="TIME",
        show_default=False,
        help="The least time between items, such as 1.5, 70s, 10m; becomes the frontier's default for lanes",
    ),
]
ConcurrencyOption = Annotated[
    int | None,
    typer.Option(
        "--concurrency",
        metavar="N",
        show_default=False,
        help="Items in flight at once, 0 for any number; becomes the frontier's default for lanes",
    ),
]
MaxAttemptsOption = Annotated[
    int | None,
    typer.Option("--max-attempts", metavar="N", show_default=False, help="Attempts after which an item is dead"),
]
PartitionsOption = Annotated[
    int | None,
    typer.Option(
        "--partitions",
        metavar="N",
        show_default="1 on SQLite, 64 on PostgreSQL",
        help="How many partitions a new frontier has; fixed from then on",
    ),
]


class GroupWithDefault(TyperGroup):
    """A group that runs `list` when no command is named."""

    takes_argument = False  # whether a word that is no command belongs to `list`

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        first = args[0] if args else "-"
        known = first in self.commands or first in ctx.help_option_names
        if not known and (first.startswith("-") or self.takes_argument):
            args = ["list", *args]
        return super().parse_args(ctx, args)


def store_url(store: str | None) -> str:
    """The URL that was given, checked; a frontier in memory has nothing to say to another process."""
    if not store:
        raise InvalidStoreURL(f"no store was named: give --store URL or set SWATH_STORE, for example --store {EXAMPLE}")
    if StoreURL.parse(store).backend == "memory":
        raise InvalidStoreURL(f"{store} is gone when its process ends: name a store that lasts, such as {EXAMPLE}")
    return store


def given_store(store: str | None) -> str | None:
    """A store that may be left out, checked where one was named."""
    return store_url(store) if store else None


def opened(store: str | None, *, create: bool = False, **options: Any) -> Opening:
    """The frontier to work on. Only `add` and `db init` create one."""
    return swath.open(store_url(store), create=create, **options)


def lane_name(lane: str) -> str:
    codec.check_lane(lane)
    return lane


def run(
    store: str | None,
    work: Coroutine[Any, Any, int | None],
    *,
    interrupted: int = Exit.INTERRUPTED,
    loop: Callable[[], asyncio.AbstractEventLoop] | None = None,
) -> None:
    """Run a command to its end. What swath raises becomes one line on standard error and an exit code; anything else
    is a bug and keeps its traceback."""
    try:
        with asyncio.Runner(loop_factory=loop) as runner:
            code = runner.run(work)
        sys.stdout.flush()
    except SwathError as error:
        message = ". ".join([str(error), *getattr(error, "__notes__", ())])
        show.complain(show.without_secrets(message, store or ""))
        code = exit_code(error)
    except BrokenPipeError:  # `swath dead | head`: the reader has enough
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        code = Exit.DONE
    except KeyboardInterrupt:
        code = interrupted
    finally:
        work.close()  # interrupted before it began
    if code:
        raise typer.Exit(code)
