"""What a transfer asks of libcurl, and what its codes mean."""

import os
from pathlib import Path
from typing import Any, ClassVar

import pycurl
import pytest

from swath.crawl.http.fetcher import Fetcher
from swath.crawl.http.transfer import BY_CODE, E_HTTP2_STREAM, E_TOO_LARGE
from swath.files.append_file import AppendFile
from swath.files.output_directory import _acquire_lock
from tests.crawl.web import Fixed


class RecordingCurl(pycurl.Curl):  # type: ignore[misc]  # pycurl has no types
    """A handle that remembers its options."""

    made: ClassVar[list["RecordingCurl"]] = []

    def __init__(self) -> None:
        super().__init__()
        self.options: dict[int, Any] = {}
        self.made.append(self)

    def setopt(self, option: int, value: Any) -> None:
        self.options[option] = value
        super().setopt(option, value)


async def read_options(monkeypatch: pytest.MonkeyPatch, **settings: Any) -> dict[int, Any]:
    monkeypatch.setattr(pycurl, "Curl", RecordingCurl)
    monkeypatch.setattr(RecordingCurl, "made", [])
    async with Fetcher(resolver=Fixed(everything=["127.0.0.1"]), user_agent="x", **settings) as made:
        made._make_transfer()
        return RecordingCurl.made[-1].options


@pytest.mark.parametrize(("given", "seconds"), [(90.0, 90), (30.4, 30), (0.2, 1)])
async def test_idle_connections_are_kept_as_long_as_asked(
    given: float, seconds: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    options = await read_options(monkeypatch, keep_alive=given)
    assert options[pycurl.MAXAGE_CONN] == seconds
    assert pycurl.FORBID_REUSE not in options


async def test_without_keep_alive_no_connection_is_reused(monkeypatch: pytest.MonkeyPatch) -> None:
    options = await read_options(monkeypatch, keep_alive=0)
    assert options[pycurl.FORBID_REUSE] == 1
    assert pycurl.MAXAGE_CONN not in options


def test_codes_that_pycurl_does_not_name() -> None:
    """CURLE_HTTP2_STREAM and CURLE_TOO_LARGE in curl/curl.h."""
    assert (E_HTTP2_STREAM, E_TOO_LARGE) == (92, 100)
    assert (BY_CODE[92], BY_CODE[100]) == ("protocol", "too-large-headers")


def test_only_the_owner_may_write_to_output_files(tmp_path: Path) -> None:
    before = os.umask(0)
    try:
        os.close(_acquire_lock(tmp_path / "lock"))
        AppendFile(tmp_path / "file").close()
    finally:
        os.umask(before)
    assert {oct(path.stat().st_mode & 0o777) for path in tmp_path.iterdir()} == {"0o644"}
