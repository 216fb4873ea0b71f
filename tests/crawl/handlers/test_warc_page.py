"""Page.from_warc: the page of a record that swath or another program wrote."""

import gzip
from collections.abc import AsyncIterator
from io import BytesIO
from pathlib import Path
from typing import Any

import pytest
from warcio.statusandheaders import StatusAndHeaders
from warcio.warcwriter import WARCWriter

from swath import UsageError
from swath.crawl import Crawler, Page
from tests.crawl.handlers.running import run

URL = "http://a.example/x"
HTML = "<title>T</title><h1>é</h1><a href=y>"


def write_record(
    body: bytes, *, kind: str = "response", compressed: bool = True, url: str = URL, **headers: str
) -> bytes:
    """Return a record as warcio writes it."""
    file = BytesIO()
    writer = WARCWriter(file, gzip=compressed)
    fields = [(name.replace("_", "-"), value) for name, value in headers.items()]
    http = StatusAndHeaders("200 OK", fields, protocol="HTTP/1.1")
    date = {"WARC-Date": "2026-01-02T03:04:05Z"}
    payload = BytesIO(body)
    record = writer.create_warc_record(
        url, kind, payload=payload, length=len(body), http_headers=http, warc_headers_dict=date
    )
    writer.write_record(record)
    return file.getvalue()


@pytest.mark.parametrize("compressed", [True, False])
def test_a_record_of_another_program(compressed: bool) -> None:
    fields = {"Content_Type": "text/html; charset=latin-1", "X_One": "1"}
    record = write_record(HTML.encode("latin-1"), compressed=compressed, **fields)
    page = Page.from_warc(record, depth=2, referrer="http://a.example/", payload=[1])
    assert (page.url, page.status, page.headers["x-one"]) == (URL, 200, "1")
    assert (page.title, page.css("h1").text(), page.links()) == ("T", "é", ["http://a.example/y"])
    assert (page.depth, page.referrer, page.payload) == (2, "http://a.example/", [1])
    assert page.fetched_at.isoformat() == "2026-01-02T03:04:05+00:00"


def test_codings_are_removed() -> None:
    body = gzip.compress(b'{"a": 1}')
    chunked = b"".join(b"%x;x=y\r\n%s\r\n" % (len(part), part) for part in (body[:7], body[7:])) + b"0\r\n\r\n"
    record = write_record(chunked, Transfer_Encoding="chunked", Content_Encoding="gzip")
    assert Page.from_warc(record).json() == {"a": 1}
    # Some programs remove the transfer coding, and keep the header.
    assert Page.from_warc(write_record(b"<p>no chunk", Transfer_Encoding="chunked")).body == b"<p>no chunk"
    assert Page.from_warc(write_record(b"5\r\nhello\r\nzz", Transfer_Encoding="chunked")).body == b"hello"
    assert Page.from_warc(write_record(b"-5\r\nhello", Transfer_Encoding="chunked")).body == b"-5\r\nhello"
    assert Page.from_warc(write_record(b"ffffffffffff\r\nhello", Transfer_Encoding="chunked")).body == b"hello"


def test_a_revisit_record_needs_its_original() -> None:
    original = write_record(b"<h1>x", url="http://a.example/first", Content_Type="text/html")
    revisit = write_record(b"", kind="revisit", Content_Type="text/html")
    with pytest.raises(UsageError, match="pass original=, the record that it refers to"):
        Page.from_warc(revisit)
    page = Page.from_warc(revisit, original=original)
    assert (page.url, page.css("h1").text()) == (URL, "x")


@pytest.mark.parametrize(
    ("record", "message"),
    [
        (b"", "no WARC record has no HTTP response"),
        (b"\x1f\x8b\x08nonsense", "cannot be decompressed"),
        (write_record(b"", kind="metadata"), "of type 'metadata' has no HTTP response"),
        (write_record(b"", url="dns:a.example"), "it needs an http or https URL"),
        (write_record(b"", compressed=False).replace(b"2026-01-02T", b"yesterday"), "and a date"),
        (write_record(b"", compressed=False).replace(b"200 OK", b"2x0 OK"), "has no HTTP response"),
    ],
)
def test_other_records_are_refused(record: bytes, message: str) -> None:
    with pytest.raises(UsageError, match=message):
        Page.from_warc(record)


def test_a_record_that_ends_early_or_lies_about_its_length() -> None:
    record = write_record(b"<h1>x</h1>", compressed=False)
    for changed in (record[:-4], record.replace(b"Content-Length: ", b"Content-Length: 9"), record + b"more"):
        assert Page.from_warc(changed).css("h1").text() == "x"
    for end in range(0, len(record), 7):
        try:
            Page.from_warc(record[:end])
        except UsageError:
            continue


def test_dates_of_any_precision() -> None:
    record = write_record(b"", compressed=False)
    for written, read in (("05.123456789Z", "05.123456+00:00"), ("05.5Z", "05.500000+00:00"), ("05", "05+00:00")):
        page = Page.from_warc(record.replace(b"05Z", written.encode()))
        assert page.fetched_at.isoformat() == f"2026-01-02T03:04:{read}"


async def test_a_record_of_swath_gives_the_items_of_the_crawl(tmp_path: Path) -> None:
    crawler = Crawler()

    @crawler.default()
    async def read(page: Page) -> AsyncIterator[dict[str, Any]]:
        yield {"title": page.title, "fetched_at": page.fetched_at, "type": page.headers["content-type"]}

    done = await run(crawler, {"http://a.example/": HTML}, tmp_path, robots=False)
    line = done.page("http://a.example/")
    with (tmp_path / line["file"]).open("rb") as file:
        file.seek(line["offset"])
        page = Page.from_warc(file.read(line["length"]))
    (item,) = crawler.check(page).items
    written = {**item, "fetched_at": item["fetched_at"].isoformat()}
    assert written.items() <= done.items["item"][0].items()
