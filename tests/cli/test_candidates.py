"""Which words the shell offers: after each part of a command line."""

from collections.abc import Sequence

import pytest

from swath.cli.app import COMMANDS, load_commands
from swath.cli.complete import FILES, list_candidates


def candidates(*words: str) -> Sequence[str]:
    *before, incomplete = words
    found = list(list_candidates(load_commands, list(COMMANDS), before, incomplete))
    return [line.partition("\t")[0] for line in found]


def test_commands_and_their_groups() -> None:
    assert candidates("") == list(COMMANDS)
    assert candidates("-") == ["--help", "--version"]
    assert candidates("--v") == ["--version"]
    assert candidates("cra") == ["crawl"]
    assert candidates("nonsense", "") == []
    assert {"list", "set", "defaults"} <= set(candidates("lanes", ""))
    assert candidates("lanes", "se") == ["set"]
    assert "set" not in candidates("lanes", "set", "")


def test_options_are_those_of_the_subcommand() -> None:
    assert candidates("lanes", "set", "--conc") == ["--concurrency"]
    assert candidates("lanes", "set", "x", "--help") == ["--help"]
    assert "--concurrency" not in candidates("lanes", "list", "--")
    assert candidates("lanes", "--") == candidates("lanes", "list", "--"), "a group without a subcommand lists"
    assert "--depth" in candidates("crawl", "--")
    assert all(word.startswith("--") for word in candidates("crawl", "-"))


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (("crawl", "--scope", ""), ["page", "prefix", "host", "domain", "any"]),
        (("crawl", "--scope", "p"), ["page", "prefix"]),
        (("crawl", "--scope", "=", "do"), ["domain"]),  # bash divides --scope=do
        (("crawl", "--scope", "="), ["page", "prefix", "host", "domain", "any"]),
        (("crawl", "--exclude-hosts", ""), [FILES]),
        (("crawl", "--depth", ""), []),
        (("crawl", "--fresh", "--sco"), ["--scope"]),  # a flag takes no value
    ],
)
def test_values_of_options(words: tuple[str, ...], expected: list[str]) -> None:
    assert candidates(*words) == expected
