"""Answer a shell that completes a command line. `swath completion` prints the script that asks.

The script runs `swath` with the words up to the cursor as arguments and the environment variable VARIABLE set. The
answer is a line for each candidate, with a tab and a description after it if there is one, or FILES to let the shell
complete the name of a file. Keys and lanes are not completed: that would need the store.
"""

import os
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

import typer

VARIABLE = "_SWATH_COMPLETE"
FILES = ":files"

# Metavars of parameters that take the name of a file
FILE_METAVARS = {"FILE", "DIR", "STORE", "SOURCE"}


def run(load_commands: Callable[[Sequence[str]], typer.Typer], names: Sequence[str]) -> int:
    """Print the candidates for the last word of `sys.argv`."""
    *before, incomplete = sys.argv[1:] or [""]
    os.environ.pop(VARIABLE)  # a candidate must not depend on it
    for line in list_candidates(load_commands, names, before, incomplete):
        print(line)
    return 0


def list_candidates(
    load_commands: Callable[[Sequence[str]], typer.Typer], names: Sequence[str], before: Sequence[str], incomplete: str
) -> Iterator[str]:
    """Yield the candidates for a word after the words before it."""
    before = [word for word in before if word != "="]  # bash divides --option=value
    if not before:
        options = ["--help", "--version"] if incomplete.startswith("-") else []
        yield from _select([*options, *names], incomplete)
        return
    if before[0] not in names:
        return
    command = typer.main.get_command(load_commands([before[0]])).commands[before[0]]  # type: ignore[attr-defined]
    rest = before[1:]
    subcommands = getattr(command, "commands", {})
    if rest and rest[0] in subcommands:
        command, rest = subcommands[rest[0]], rest[1:]
    elif rest or incomplete.startswith("-"):
        command = subcommands.get("list", command)
    yield from _complete(command, rest, "" if incomplete == "=" else incomplete)


def _complete(command: Any, before: Sequence[str], incomplete: str) -> Iterator[str]:
    option = _find_option(command, before[-1]) if before else None
    if option is not None:
        yield from _complete_value(option, incomplete)
    elif incomplete.startswith("-"):
        names = [(name, param) for param in command.params for name in (*param.opts, *param.secondary_opts)]
        described = [f"{name}\t{param.help or ''}" for name, param in names if name.startswith("--")]
        yield from _select([*described, "--help\tShow the help"], incomplete)
    else:
        if hasattr(command, "commands") and not before:
            yield from _select(command.commands, incomplete)
            command = command.commands.get("list", command)
        arguments = [param for param in command.params if param.param_type_name == "argument"]
        values = [answer for param in arguments for answer in _complete_value(param, incomplete)]
        yield from dict.fromkeys(values)


def _find_option(command: Any, word: str) -> Any:
    """Return the option that takes its value from the word after this one, or None."""
    for param in command.params:
        if word in param.opts and word.startswith("-") and not getattr(param, "is_flag", False):
            return param
    return None


def _complete_value(param: Any, incomplete: str) -> Iterable[str]:
    metavar = (param.metavar or "").strip("[]").removesuffix("...")
    if metavar in FILE_METAVARS:
        return [FILES]
    return _select(metavar.split("|"), incomplete) if "|" in metavar else []


def _select(candidates: Iterable[str], incomplete: str) -> Iterator[str]:
    return (candidate for candidate in candidates if candidate.startswith(incomplete))
