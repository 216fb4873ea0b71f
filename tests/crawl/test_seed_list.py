"""Seed lists as people and publishers write them."""

import gzip
import tracemalloc

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from swath.core.errors import UsageError
from swath.crawl.seed_list import MAX_LINE, MAX_REPORTS, BadSeed, Seed, SeedListParser, parse_seed
from swath.crawl.urls.normalise import host, list_later_forms, normalise


def parse(
    data: str | bytes, *, name: str = "list.txt", strict: bool = False, block: int = 1 << 20
) -> tuple[list[str], SeedListParser]:
    content = data.encode() if isinstance(data, str) else data
    parser = SeedListParser(name, strict=strict, check=lambda _seed: None)
    seeds = []
    for start in range(0, len(content), block):
        seeds += list(parser.feed(content[start : start + block]))
    seeds += list(parser.feed(b"", end=True))
    return [seed.url for seed in seeds], parser


@pytest.mark.parametrize(
    ("name", "text", "urls"),
    [
        ("tranco.csv", "1,google.com\r\n2,xn--bcher-kva.example\r\n", "google.com xn--bcher-kva.example"),
        ("tranco.txt", "1,google.com\n2,youtube.com", "google.com youtube.com"),
        ("majestic.csv", "GlobalRank,TldRank,Domain\n1,1,facebook.com\n2,2,x.co.uk\n", "facebook.com x.co.uk"),
        ("domcop.csv", '"Rank","Domain","Open Page Rank"\n"1","a.example","10.00"\n', "a.example"),
        ("crux.csv", "origin,rank\nhttps://a.example,1000\n", "a.example"),
        ("crux.txt", "https://a.example,1000\nhttps://b.example:444,1000\n", "a.example b.example:444"),
        ("quoted.txt", '"https://a.example/x,y",5\n"b.example"\n', "a.example/x,y b.example"),
        ("tabs.txt", "1\ta.example\n0.95\tb.example\n", "a.example b.example"),
        ("scores.txt", "1,0.95,a.example\n", "a.example"),
        ("semicolons.csv", "rank;domain\n1;a.example\n", "a.example"),
        ("one-column.txt", "domain\na.example\n", "a.example"),
        ("one-column.csv", "Domain\na.example\n", "a.example"),
        ("addresses.txt", "1,8.8.8.8\n", "8.8.8.8"),
        ("urls.txt", "https://a.example/x,y\nb.example/5,x\nc.example/;d", "a.example/x,y b.example/5,x c.example/;d"),
        ("comments.txt", "# mine\n\n  a.example   # yours\nb.example#top\n\t\n", "a.example b.example"),
        ("mac.txt", "a.example\rb.example\r", "a.example b.example"),
        ("idn.txt", "bücher.example\n1,пример.рф\n", "xn--bcher-kva.example xn--e1afmkfd.xn--p1ai"),
        ("plain.txt", "intranet-host\n8.8.8.8:81/x\n", "intranet-host 8.8.8.8:81/x"),
        ("empty.txt", "", ""),
    ],
)  # fmt: skip
@pytest.mark.parametrize("block", [1, 7, 1 << 20])
def test_published_lists_are_read(name: str, text: str, urls: str, block: int) -> None:
    expected = [normalise(f"https://{url}") for url in urls.split()]
    for content in (text, "\ufeff" + text, text.encode("utf-16"), gzip.compress(text.encode())):
        found, parser = parse(content, name=name, block=block)
        assert (found, parser.skipped, parser.seeds) == (expected, 0, len(expected))


@pytest.mark.parametrize(
    "text", ["1,google.com", "a,b.example", "google.com;2", "https://1,google.com/", "a|b.example"]
)
def test_a_row_of_a_table_is_not_a_host_name(text: str) -> None:
    with pytest.raises(BadSeed):
        parse_seed(text)


def test_a_bad_line_is_skipped_counted_and_named() -> None:
    lines = [b"a.example", b"two words", b"1,2", b"b\xff.example", b"c\0.example", b"mailto:me@d.example", b"ftp://e"]
    lines += [b"x" * (MAX_LINE + 5), b"\x1b[2J", b"z.example"]
    found, parser = parse(b"\n".join(lines))
    assert found == ["https://a.example/", "https://z.example/"]
    assert (parser.seeds, parser.skipped, len(parser.reports)) == (2, 8, MAX_REPORTS)
    assert parser.reports[0].startswith("line 2 of list.txt: 'two words' is not a URL or host name")
    assert parser.reports[1] == "line 3 of list.txt: '1,2' has no column with a host name or URL"
    assert parser.reports[2] == r"line 4 of list.txt: 'b\udcff.example' is not UTF-8"
    assert parser.reports[3].endswith("contains NUL characters: convert the file to UTF-8")
    for number, line in enumerate(lines[1:-1], 2):
        with pytest.raises(UsageError, match=f"line 2 of list.txt: .*{'longer' if len(line) > MAX_LINE else ''}"):
            parse(b"ok.example\n" + line + b"\nok.example", strict=True)
        assert all(character.isprintable() for report in parser.reports for character in report), number


@pytest.mark.parametrize(
    ("content", "what"),
    [
        (b"PK\x03\x04rest", "a ZIP archive"),
        (b"\xfd7zXZ\0\0", "compressed with xz"),
        (b"\x28\xb5\x2f\xfd\0", "compressed with zstd"),
        ("a.example".encode("utf-32"), "UTF-32 text"),
        (gzip.compress(b"a.example\n" * 1000)[:-20], "not a complete gzip file"),
        (gzip.compress(b"a.example")[:20] + b"garbage!", "not a valid gzip file"),
    ],
    ids=["zip", "xz", "zstd", "utf-32", "truncated", "damaged"],
)
@pytest.mark.parametrize("block", [1, 1 << 20])
def test_a_file_of_another_format_is_refused(content: bytes, what: str, block: int) -> None:
    with pytest.raises(UsageError, match=f"list.txt is {what}"):
        parse(content, block=block)


def test_a_gzip_file_may_have_several_members() -> None:
    found, _ = parse(gzip.compress(b"a.example\nb.ex") + gzip.compress(b"ample\nc.example"), block=5)
    assert [host(url) for url in found] == ["a.example", "b.example", "c.example"]


def test_memory_does_not_grow_with_a_line_or_a_compressed_file() -> None:
    bomb = gzip.compress(b"x" * 100_000_000)
    tracemalloc.start()
    found, parser = parse(bomb)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert (found, parser.skipped) == ([], 1)
    assert peak < 20_000_000


def test_a_seed_without_a_scheme_is_bare() -> None:
    assert parse_seed("example.com/x") == Seed("https://example.com/x", bare=True)
    assert parse_seed("//example.com") == Seed("https://example.com/", bare=True)
    assert parse_seed("https://example.com") == Seed("https://example.com/")
    assert parse_seed("localhost:8000") == Seed("http://localhost:8000/")


@pytest.mark.parametrize(
    ("url", "forms"),
    [
        ("https://a.example/x?y", "http://a.example/x?y https://www.a.example/x?y http://www.a.example/x?y"),
        ("http://a.example:81/", "https://www.a.example:81/ http://www.a.example:81/"),
        ("https://www.a.example/", "http://www.a.example/"),
        ("http://www.a.example/", ""),
        ("https://8.8.8.8/", "http://8.8.8.8/"),
        ("https://[2001:4860::1]/", "http://[2001:4860::1]/"),
        ("https://intranet/", "http://intranet/"),
    ],
)
def test_the_later_forms_of_a_host_name(url: str, forms: str) -> None:
    assert list_later_forms(url) == forms.split()


@settings(deadline=None)
@given(st.lists(st.text(max_size=40)), st.integers(1, 9))
def test_any_text_is_parsed_the_same_in_any_blocks(lines: list[str], block: int) -> None:
    content = "\n".join(lines).encode(errors="replace")
    (whole, one), (parts, two) = parse(content, name="x.csv"), parse(content, name="x.csv", block=block)
    assert (whole, one.skipped, one.reports) == (parts, two.skipped, two.reports)
    assert all(normalise(url) == url and "," not in host(url) for url in whole)
