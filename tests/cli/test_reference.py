"""The written reference says what the code says."""

import pytest

from docs import generate


@pytest.mark.parametrize("name", list(generate.PAGES))
def test_the_reference_is_up_to_date(name: str) -> None:
    written = (generate.REFERENCE / name).read_text(encoding="utf-8")
    assert written == generate.PAGES[name](), "run: python -m docs.generate"


def test_each_error_is_a_row_of_the_table() -> None:
    """Also one whose docstring has several lines."""
    table = generate.error_reference().partition("|---|---|---|---|\n")[2].splitlines()
    assert len(table) > 10
    assert [row for row in table if row.count(" | ") != 3 or not row.endswith(" |")] == []
