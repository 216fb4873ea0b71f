import pytest

from swath.cli.add_progress import AddProgress
from swath.cli.formatting import escape, format_duration, format_limits, format_size, mask_secrets, pluralize
from swath.cli.progress_line import PLAIN_SECONDS


def test_passwords_are_masked_in_any_text() -> None:
    url = "postgresql://u:p%40ssword@host/db"
    assert mask_secrets("could not log in as u with p@ssword", url) == "could not log in as u with ***"
    assert mask_secrets(f"{url!r} was refused", url) == "'postgresql://u:***@host/db' was refused"


def test_what_does_not_print_is_escaped() -> None:
    assert escape("grün 日本 ok") == "grün 日本 ok"
    assert escape("a\x1b[2J\n\t\u202e\x7f") == "a\\x1b[2J\\n\\t\\u202e\\x7f"
    assert escape("a\n\x00b", keep="\n") == "a\n\\x00b"


def test_words() -> None:
    assert [format_duration(s) for s in (0.00001, 0.00146, 0.05, 0.5, 1, 70, 600, 7200, 200_000)] == [
        "0 s",
        "1.5 ms",
        "50 ms",
        "0.5 s",
        "1 s",
        "70 s",
        "10 min",
        "2 h",
        "2 d",
    ]
    assert [format_size(n) for n in (1, 500, 40_960, 12_345_678, 10**12)] == [
        "1 byte",
        "500 bytes",
        "41.0 kB",
        "12.3 MB",
        "1.0 TB",
    ]
    assert pluralize(1, "item") == "1 item"
    assert pluralize(1234, "item") == "1,234 items"
    assert format_limits(1.5, 1) == "one every 1.5 s, 1 at once"
    assert format_limits(0, 0) == "no interval, unlimited at once"


def test_away_from_a_terminal_progress_is_a_line_now_and_then(capsys: pytest.CaptureFixture[str]) -> None:
    now = 100.0
    progress = AddProgress(total_bytes=None, clock=lambda: now)
    with progress:
        progress.advance(read=1000, added=900, bytes_read=0)
        assert capsys.readouterr().err == ""
        now += PLAIN_SECONDS
        progress.advance(read=1000, added=100, bytes_read=0)
        assert capsys.readouterr().err.endswith("Z 1,000 new of 2,000, 200 a second\n")
        progress.advance(read=1000, added=0, bytes_read=0)
        assert capsys.readouterr().err == ""
