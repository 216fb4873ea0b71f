"""Each `--help` ends with examples, and each of them is a command that swath understands."""

import re
import shlex
from typing import Any

import pytest
import typer

from docs import generate
from swath.cli.app import load_commands
from tests.cli.conftest import run_swath

COMMANDS = [((), typer.main.get_command(load_commands())), *((path[1:], one) for path, one in generate.list_commands())]


def list_words(example: str) -> list[str]:
    """Return the words after `swath`, up to a pipe, a redirection or a bracket of the shell."""
    words = shlex.split(example.partition("<(")[2].rstrip(")") or example, comments=True)
    assert words[0] == "swath", example
    ends = [number for number, word in enumerate(words) if word in ("|", ">", "<")]
    return words[1 : min(ends, default=len(words))]


def parse(command: Any, words: list[str]) -> None:
    """Parse words as a command does, without running it."""
    with command.make_context("swath", list(words)) as context:
        if hasattr(command, "commands"):
            left = [*getattr(context, "_protected_args", []), *context.args]
            _, found, rest = command.resolve_command(context, left)
            parse(found, rest)


@pytest.mark.parametrize(("path", "command"), COMMANDS, ids=[" ".join(path) or "swath" for path, _ in COMMANDS])
def test_each_command_has_examples_that_parse(path: tuple[str, ...], command: Any) -> None:
    assert 2 <= len(command.examples) <= 3
    root = COMMANDS[0][1]
    for example in command.examples:
        words = list_words(example)
        if "COMMAND" not in words:
            parse(root, words)
        if path:
            assert words[: len(path)] == list(path) or hasattr(command, "commands"), example


def test_examples_are_not_wrapped() -> None:
    for path, command in COMMANDS:
        shown = run_swath(*path, "--help").out
        for example in command.examples:
            assert re.search(rf"^   {re.escape(example)}$", shown, re.MULTILINE), path
