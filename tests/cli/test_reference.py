"""The written reference says what the code says."""

import re

import pytest
from typer.testing import CliRunner

from docs import generate
from swath.cli.app import app


@pytest.mark.parametrize("name", list(generate.PAGES))
def test_the_reference_is_up_to_date(name: str) -> None:
    written = (generate.REFERENCE / name).read_text(encoding="utf-8")
    assert written == generate.PAGES[name](), "run: python -m docs.generate"


def test_each_error_is_a_row_of_the_table() -> None:
    """Also one whose docstring has several lines."""
    table = generate.error_reference().partition("|---|---|---|---|\n")[2].splitlines()
    assert len(table) > 10
    assert [row for row in table if row.count(" | ") != 3 or not row.endswith(" |")] == []


def test_each_event_says_what_it_is() -> None:
    """A dataclass without a docstring is given one by Python, which is its signature."""
    rows = generate.event_reference().partition("|---|---|---|\n")[2].splitlines()
    assert len(rows) > 10
    assert [row for row in rows if not re.match(r"\| `swath\.events\.(\w+)` \| (?!\1\()\w.*[.] \| `\w+`", row)] == []


def test_each_option_is_a_row_with_two_cells() -> None:
    rows = [line for line in generate.cli_reference().splitlines() if line.startswith("| `")]
    assert [row for row in rows if len(re.findall(r"(?<!\\)[|]", row)) != 3] == []
    assert [row for row in rows if (name := row.split("`")[1]).count("[") != name.count("]")] == []


@pytest.mark.parametrize("path", [(), *(path[1:] for path, _ in generate.list_commands())], ids=" ".join)
def test_a_flag_is_shown_without_a_value(path: tuple[str, ...]) -> None:
    shown = CliRunner().invoke(app, [*path, "--help"], terminal_width=100)
    assert "--help" in shown.output
    assert not re.search(r"(?<!-)\bbool", shown.output.lower())  # --loose text-boolean is a name


@pytest.mark.parametrize("path", [("crawl",), ("add",), ("dead", "retry")], ids=" ".join)
def test_what_may_be_given_several_times_is_shown_so(path: tuple[str, ...]) -> None:
    shown = CliRunner().invoke(app, [*path, "--help"], terminal_width=100)
    assert re.search(rf"Usage: .*{' '.join(path)} \[OPTIONS\] (\[(?:URL|KEY)\.\.\.\])", shown.output)
