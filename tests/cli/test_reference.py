"""The written reference says what the code says."""

import pytest

from docs import generate


@pytest.mark.parametrize("name", list(generate.PAGES))
def test_the_reference_is_up_to_date(name: str) -> None:
    written = (generate.REFERENCE / name).read_text(encoding="utf-8")
    assert written == generate.PAGES[name](), "run: python -m docs.generate"
