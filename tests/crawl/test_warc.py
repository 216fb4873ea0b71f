"""WARC records, as warcio reads them."""

import gzip
import io
import random
import subprocess
import sys
from pathlib import Path
from typing import Any
from uuid import RFC_4122, UUID

import pytest
from warcio.archiveiterator import ArchiveIterator

from swath.core.errors import UsageError
from swath.crawl.archive import warc

TIME = 1_700_000_000.123456
BODY = "".join(f"<a href='/{i}'>größer</a>\n" for i in range(500)).encode()
HEAD = b"HTTP/1.1 200 OK\r\nContent-Type: text/html\r\nTransfer-Encoding: chunked\r\nX-Empty:\r\n\r\n"
SENT = b"GET /a?b HTTP/1.1\r\nHost: example.com\r\nUser-Agent: swath\r\n\r\n"
URL = "https://example.com/a?b"


def a_response(body: bytes = BODY, *, head: bytes = HEAD, **more: Any) -> tuple[str, bytes]:
    record_id = warc.new_record_id()
    digest = warc.compute_payload_digest(body)
    return record_id, warc.build_response(
        URL, record_id=record_id, time=TIME, head=head, body=body, digest=digest, address="192.0.2.7", **more
    )


def read(data: bytes) -> list[tuple[Any, bytes]]:
    return [(record, record.content_stream().read()) for record in ArchiveIterator(io.BytesIO(data))]


def check(*paths: Path) -> subprocess.CompletedProcess[str]:
    """What warcio's own command says."""
    command = [sys.executable, "-m", "warcio.cli", "check", "-v", *map(str, paths)]
    return subprocess.run(command, capture_output=True, text=True, check=False)


def a_file(body: bytes = BODY) -> list[bytes]:
    response_id, response = a_response(body)
    refers = {"refers_to": response_id, "refers_to_url": URL, "refers_to_time": TIME}
    digest = warc.compute_payload_digest(body)
    return [
        warc.build_warcinfo("x.warc.gz", record_id=warc.new_record_id(), time=TIME, fields={"software": "swath"}),
        response,
        warc.build_request(URL, record_id=warc.new_record_id(), time=TIME, sent=SENT, concurrent_to=response_id),
        warc.build_revisit(URL, record_id=warc.new_record_id(), time=TIME, head=HEAD, digest=digest, **refers),  # type: ignore[arg-type]
    ]


def test_warcio_finds_every_digest_right(tmp_path: Path) -> None:
    path = tmp_path / "x.warc.gz"
    path.write_bytes(b"".join(a_file()))
    done = check(path)
    assert done.returncode == 0, done.stdout
    assert done.stdout.count("digest pass") == 3
    assert done.stdout.count("not checked (revisit)") == 1


def test_warcio_would_find_a_wrong_digest(tmp_path: Path) -> None:
    path = tmp_path / "x.warc.gz"
    path.write_bytes(
        warc.build_response(URL, record_id="<x:y>", time=TIME, head=HEAD, body=BODY, digest="sha1:" + "A" * 32)
    )
    assert check(path).returncode == 1


def test_a_response_holds_what_came() -> None:
    ((record, content),) = read(a_response(protocol="http/1.1", truncated="length")[1])
    fields = record.rec_headers
    assert record.rec_type == "response"
    assert fields.get_header("WARC-Target-URI") == URL
    assert fields.get_header("WARC-Date") == "2023-11-14T22:13:20.123456Z"
    assert fields.get_header("WARC-IP-Address") == "192.0.2.7"
    assert fields.get_header("WARC-Protocol") == "http/1.1"
    assert fields.get_header("WARC-Truncated") == "length"
    assert fields.get_header("Content-Type") == "application/http;msgtype=response"
    assert record.http_headers.get_statuscode() == "200"
    assert record.http_headers.get_header("X-Archive-Orig-Transfer-Encoding") == "chunked"
    assert record.http_headers.get_header("Transfer-Encoding") is None
    assert content == BODY


def test_a_coded_body_stays_coded() -> None:
    packed = gzip.compress(BODY)
    ((record, content),) = read(a_response(packed, head=b"HTTP/1.1 200 OK\r\nContent-Encoding: gzip\r\n\r\n")[1])
    assert content == BODY
    assert record.rec_headers.get_header("WARC-Payload-Digest") == warc.compute_payload_digest(packed)


def test_request_and_revisit_name_their_response() -> None:
    records = read(b"".join(a_file()))
    info, response, request, revisit = (record.rec_headers for record, _ in records)
    assert [record.rec_type for record, _ in records] == ["warcinfo", "response", "request", "revisit"]
    assert info.get_header("WARC-Filename") == "x.warc.gz"
    assert b"software: swath\r\n" in records[0][1]
    assert request.get_header("WARC-Concurrent-To") == response.get_header("WARC-Record-ID")
    assert revisit.get_header("WARC-Refers-To") == response.get_header("WARC-Record-ID")
    assert revisit.get_header("WARC-Refers-To-Target-URI") == URL
    assert revisit.get_header("WARC-Refers-To-Date") == response.get_header("WARC-Date")
    assert revisit.get_header("WARC-Profile") == warc.REVISIT_PROFILE
    assert revisit.get_header("WARC-Payload-Digest") == response.get_header("WARC-Payload-Digest")
    assert records[2][0].http_headers.get_header("User-Agent") == "swath"
    assert records[3][1] == b""


def test_records_are_members_that_can_be_pulled_out_by_offset(tmp_path: Path) -> None:
    members = a_file()
    path = tmp_path / "x.warc.gz"
    path.write_bytes(b"".join(members))
    offset = len(members[0])
    with path.open("rb") as file:
        file.seek(offset)
        ((record, content),) = read(file.read(len(members[1])))
    assert (record.rec_type, content) == ("response", BODY)
    with path.open("rb") as file:
        found = ArchiveIterator(file)
        assert [found.get_record_offset() for _ in found] == [
            sum(map(len, members[:before])) for before in range(len(members))
        ]


def test_a_large_body_is_written_like_a_small_one() -> None:
    large = random.Random(1).randbytes(3 * warc.STREAMED)
    ((_, content),) = read(a_response(large)[1])
    assert content == large


def test_http_2_is_written_as_text() -> None:
    ((record, content),) = read(a_response(head=b"HTTP/2 404 \r\nserver: x\r\n\r\n", protocol="h2")[1])
    assert record.http_headers.protocol == "HTTP/1.1"
    assert record.http_headers.get_statuscode() == "404"
    assert record.rec_headers.get_header("WARC-Protocol") == "h2"
    assert content == BODY


@pytest.mark.parametrize("rest", [b"", b" ", b" 200", b".0 200 OK"])
def test_of_a_status_line_the_version_alone_is_replaced(rest: bytes) -> None:
    """Whatever a host says for one, also where it says no more."""
    for fields in (b"\r\n\r\n", b"\r\nA:b\r\n\r\n", b"\nLength: 2\n\n"):
        assert warc.rewrite_head(b"HTTP/2" + rest + fields) == b"HTTP/1.1" + rest.removeprefix(b".0") + fields


@pytest.mark.parametrize(
    ("head", "stored"),
    [
        (b"HTTP/1.1 200 OK\r\nTRANSFER-ENCODING : gzip\r\n\r\n", b"X-Archive-Orig-TRANSFER-ENCODING : gzip"),
        (b"HTTP/1.0 200 OK\ntransfer-encoding: chunked\n\n", b"X-Archive-Orig-transfer-encoding: chunked"),
        (b"HTTP/1.1 200 OK\r\nX-Note: transfer-encoding: x\r\n\r\n", b"X-Note: transfer-encoding: x"),
    ],
)
def test_only_the_transfer_coding_is_renamed(head: bytes, stored: bytes) -> None:
    assert warc.rewrite_head(head).splitlines()[1] == stored


def test_the_same_values_make_the_same_bytes() -> None:
    again = {"record_id": "<urn:uuid:1>", "time": TIME, "head": HEAD, "body": BODY, "digest": "sha1:x"}
    assert warc.build_response(URL, **again) == warc.build_response(URL, **again)  # type: ignore[arg-type]


def test_a_line_break_cannot_make_a_header() -> None:
    with pytest.raises(UsageError, match="line break"):
        warc.build_request("http://a/\r\nX: y", record_id="<x:y>", time=TIME, sent=SENT, concurrent_to="<x:y>")


def test_record_ids_are_random_uuids() -> None:
    ids = {warc.new_record_id() for _ in range(10_000)}
    assert len(ids) == 10_000
    for one in ids:
        found = UUID(one.removeprefix("<urn:uuid:").removesuffix(">"))
        assert (found.version, found.variant) == (4, RFC_4122)


def test_times_in_names_follow_the_convention() -> None:
    assert warc.format_timestamp17(TIME) == "20231114221320123"
