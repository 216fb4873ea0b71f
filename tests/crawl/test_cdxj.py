"""The index is sorted, whole, and its offsets lead to the records."""

import io
import json
import random
from pathlib import Path

import pytest
from warcio.archiveiterator import ArchiveIterator

from swath.crawl.archive import warc
from swath.crawl.archive.cdxj import IndexEntry, sort_lines
from swath.files.output_directory import OutputDirectory
from swath.files.rotation import FileSeries

TIME = 1_700_000_000.9


def surt(url: str) -> str:
    host, _, path = url.removeprefix("http://").partition("/")
    return f"{','.join(reversed(host.split('.')))})/{path}"


def capture(number: int) -> IndexEntry:
    return IndexEntry(
        f"http://h{number % 7}.example/ü{number}", TIME + number, 200, "text/html", "sha1:X", "f", number, 5
    )


def test_the_fields_of_a_line() -> None:
    (line,) = sort_lines([capture(1)], surt=surt)
    key, timestamp, fields = line.split(" ", 2)
    assert key == "example,h1)/ü1"
    assert timestamp == "20231114221321"
    assert json.loads(fields) == {
        "url": "http://h1.example/ü1",
        "mime": "text/html",
        "status": "200",
        "digest": "sha1:X",
        "length": "5",
        "offset": "1",
        "filename": "f",
    }


@pytest.mark.parametrize(("chunk", "fan_in"), [(1_000, 5), (100, 200), (7, 3), (1, 2), (500, 2)])
def test_chunks_make_no_difference(tmp_path: Path, chunk: int, fan_in: int) -> None:
    captures = [capture(number) for number in range(500)]
    random.Random(5).shuffle(captures)
    whole = sorted(line for one in captures for line in sort_lines([one], surt=surt))
    assert list(sort_lines(iter(captures), surt=surt, directory=tmp_path, chunk=chunk, fan_in=fan_in)) == whole
    assert list(tmp_path.iterdir()) == []


def test_no_captures_make_no_lines() -> None:
    assert list(sort_lines([], surt=surt)) == []


def test_chunks_are_removed_when_the_reader_stops_early(tmp_path: Path) -> None:
    reading = sort_lines((capture(number) for number in range(100)), surt=surt, directory=tmp_path, chunk=10)
    next(reading)
    assert list(tmp_path.iterdir())
    reading.close()  # type: ignore[attr-defined]
    assert list(tmp_path.iterdir()) == []


def test_a_page_can_be_pulled_out_by_its_line(tmp_path: Path) -> None:
    series = FileSeries("warc", prefix="t", unique="u", suffix=".warc.gz", size=2_000)
    bodies = {f"http://a.example/{number}": random.Random(number).randbytes(400) for number in range(20)}
    with OutputDirectory(tmp_path, series=[series], timestamp=lambda: warc.format_timestamp17(TIME)) as archive:
        archive.recover({})
        records = [
            warc.build_response(
                url,
                record_id=warc.new_record_id(),
                time=TIME,
                head=b"HTTP/1.1 200 OK\r\n\r\n",
                body=body,
                digest=warc.compute_payload_digest(body),
            )
            for url, body in bodies.items()
        ]
        placed = archive.append("warc", records)
        archive.commit()
    captures = [
        IndexEntry(url, TIME, 200, "text/html", warc.compute_payload_digest(body), *place)
        for (url, body), place in zip(bodies.items(), placed, strict=True)
    ]
    assert len({one.file for one in captures}) > 2
    for line in sort_lines(captures, surt=surt):
        fields = json.loads(line.split(" ", 2)[2])
        with (tmp_path / fields["filename"]).open("rb") as file:
            file.seek(int(fields["offset"]))
            (record,) = list(_read(file.read(int(fields["length"]))))
        assert record == bodies[fields["url"]]


def _read(member: bytes) -> list[bytes]:
    return [record.content_stream().read() for record in ArchiveIterator(io.BytesIO(member))]


def test_other_methods_are_not_found_under_the_url() -> None:
    """Who looks for a URL in the index gets the answer to a GET."""
    lines = list(sort_lines([capture(1)._replace(method="POST"), capture(1)], surt=surt))
    assert [line.split(" ")[0] for line in lines] == ["example,h1)/ü1", "example,h1)/ü1?__wb_method=POST"]
    assert "method" not in json.loads(lines[0].split(" ", 2)[2])
    assert json.loads(lines[1].split(" ", 2)[2])["method"] == "POST"
