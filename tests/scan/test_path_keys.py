"""Names of files as keys."""

import os

from hypothesis import given
from hypothesis import strategies as st

from swath import check_key
from swath.scan.path_keys import MAX_KEY, key_to_path, path_to_key, shorten_key

paths = st.binary(min_size=1, max_size=300).map(lambda raw: os.fsdecode(raw.replace(b"\0", b"0")))


@given(paths)
def test_a_key_is_printable_and_leads_back_to_the_path(path: str) -> None:
    key = path_to_key(path)
    assert key.isprintable()
    assert key_to_path(key) == path
    check_key(key)


@given(st.lists(paths, max_size=20, unique=True))
def test_different_paths_have_different_keys(found: list[str]) -> None:
    assert len({path_to_key(path) for path in found}) == len(found)


def test_plain_names_stay_as_they_are() -> None:
    assert path_to_key("a/b c/Grüße.txt") == "a/b c/Grüße.txt"
    assert path_to_key("100%.txt") == "100%25.txt"
    assert path_to_key(os.fsdecode(b"\xff\n")) == "%FF%0A"


def test_a_long_key_is_cut_and_stays_unique() -> None:
    one, other = shorten_key("ä" * 5_000 + "1"), shorten_key("ä" * 5_000 + "2")
    assert one != other
    check_key(f"recheck 1: {one}")


def test_a_cut_key_is_the_same_in_every_version() -> None:
    """A scan that an earlier version began finds its items again."""
    assert shorten_key("a" * MAX_KEY) == "a" * MAX_KEY
    assert shorten_key("ä" * 5_000) == "ä" * (MAX_KEY // 2) + "…eb06219c2a015079e50dd4d40a10cbc8"
