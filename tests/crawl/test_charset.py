"""Bytes become text as in a browser, and always."""

import asyncio
import codecs
import random
import time

import endec
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from swath.crawl.parse import charset
from swath.crawl.parse.charset import (
    _NAMES,
    LABELS_CACHED,
    MAX_HEAD,
    PRESCAN,
    _encoding_from_label,
    charset_from_body,
    decode_text,
    decode_within,
    encode_query,
    encoding_from_label,
    get_python_codec,
)

META = b'<meta charset="%s">'


@pytest.mark.parametrize(
    ("body", "content_type", "text", "name"),
    [
        (b"", None, "", "utf-8"),
        (b"abc", None, "abc", "utf-8"),
        ("é".encode(), None, "é", "utf-8"),
        ("é".encode()[:1] + b"x", None, "\xc3x", "windows-1252"),
        ("aé".encode()[:-1], None, "a", "utf-8"),
        (b"caf\xe9 \x80", None, "café €", "windows-1252"),
        # The header.
        (b"\xe9", "text/html; charset=ISO-8859-1", "é", "windows-1252"),
        (b"\x80", "text/html;charset='latin1'", "€", "windows-1252"),
        (b"\xef", 'text/html; Charset = "windows-1251"', "п", "windows-1251"),
        (b"\xc1\xc2", "text/html; charset=koi8-r", "аб", "koi8-r"),  # noqa: RUF001
        (b"\x93\xfa\x96{", "text/html; charset=Shift_JIS", "日本", "shift_jis"),
        ("日本".encode("gbk"), "text/html; charset=gb2312", "日本", "gbk"),
        ("日本".encode("euc-jp"), "text/html; charset=x-euc-jp", "日本", "euc-jp"),
        ("한".encode("euc-kr"), "text/html; charset=ks_c_5601-1987", "한", "euc-kr"),
        ("日".encode("big5"), "text/html; charset=big5", "日", "big5"),
        (b"a\0", "text/html; charset=utf-16", "a", "utf-16le"),
        (b"\xff", "text/html; charset=utf-8", "\ufffd", "utf-8"),
        ("é".encode(), "text/html; charset=nonsense", "é", "utf-8"),
        ("é".encode(), "text/html; charset=", "é", "utf-8"),
        (b"+AGEA-", "text/html; charset=utf-7", "+AGEA-", "utf-8"),
        (b"616263", "text/html; charset=hex", "616263", "utf-8"),
        # The byte order mark overrides the header, and is not part of the text.
        (codecs.BOM_UTF8 + "é".encode(), "text/html; charset=latin1", "é", "utf-8"),
        (codecs.BOM_UTF16_LE + "é".encode("utf-16-le"), None, "é", "utf-16le"),
        (codecs.BOM_UTF16_BE + "é".encode("utf-16-be") + b"x", "text/html", "é\ufffd", "utf-16be"),
        # The header is stronger than the page.
        (META % b"utf-8" + b"\xe9", "text/html; charset=latin1", '<meta charset="utf-8">é', "windows-1252"),
    ],
)
def test_a_body_is_decoded(body: bytes, content_type: str | None, text: str, name: str) -> None:
    assert decode_text(body, content_type) == (text, name)


@pytest.mark.parametrize(
    ("head", "name"),
    [
        (b"<meta charset=koi8-r>", "koi8-r"),
        (b"<META CHARSET='KOI8-R' />", "koi8-r"),
        (b'<meta/charset = "koi8-r"', "koi8-r"),
        (b'<meta\nname="x>y" charset="koi8-r">', "koi8-r"),
        (b'<meta http-equiv="Content-Type" content="text/html; charset=koi8-r">', "koi8-r"),
        (b"<meta content='text/html;charset=koi8-r' http-equiv=content-type>", "koi8-r"),
        (b'<meta name="description" content="charset=koi8-r">', None),
        (b'<meta content="text/html; charset=koi8-r">', None),
        (b"<!-- <meta charset=koi8-r> -->", None),
        (b"<!-- a --><meta charset=koi8-r><!-- b -->", "koi8-r"),
        (b"<!-- <meta charset=koi8-r>", None),
        (b"<metacharset=koi8-r>", None),
        (b"<meta charset=nonsense><meta charset=koi8-r>", "koi8-r"),
        (b"<meta charset=utf-16>", "utf-8"),
        (b"<meta charset=x-user-defined>", "windows-1252"),
        (b"<?xml version='1.0' encoding='koi8-r'?>", "koi8-r"),
        (b"<p>text</p><?xml version='1.0' encoding='koi8-r'?>", None),
        (b" " * (PRESCAN - 22) + b"<meta charset=koi8-r>", "koi8-r"),
        (b" " * PRESCAN + b"<meta charset=koi8-r>", "koi8-r"),
        (b"<head>" + b" " * PRESCAN + b"<title>t</title><meta charset=koi8-r>", "koi8-r"),
        (b"<head>" + b" " * PRESCAN + b"</head><meta charset=koi8-r>", None),
        (b"<head>" + b" " * PRESCAN + b"<p><meta charset=koi8-r>", None),
        (b" " * MAX_HEAD + b"<meta charset=koi8-r>", None),
    ],
)
def test_a_page_says_what_it_is_in(head: bytes, name: str | None) -> None:
    assert decode_text(head + b"\xff", "text/html")[1] == (name or "windows-1252")


@pytest.mark.parametrize(
    ("label", "name"),
    [
        ("UTF8", "utf-8"),
        (" utf-8\n", "utf-8"),
        ("ascii", "windows-1252"),
        ("latin1", "windows-1252"),
        ("l1", "windows-1252"),
        ("iso8859-1", "windows-1252"),
        ("iso88591", "windows-1252"),
        ("iso_8859-1:1987", "windows-1252"),
        ("cp1252", "windows-1252"),
        ("x-cp1250", "windows-1250"),
        ("iso-8859-9", "windows-1254"),
        ("latin5", "windows-1254"),
        ("iso-8859-11", "windows-874"),
        ("iso-8859-15", "iso-8859-15"),
        ("latin9", "iso-8859-15"),
        ("l6", "iso-8859-10"),
        ("iso-8859-8-i", "iso-8859-8-i"),
        ("iso-8859-8-e", "iso-8859-8"),
        ("csISOLatin3", "iso-8859-3"),
        ("iso-ir-110", "iso-8859-4"),
        ("csiso88596i", "iso-8859-6"),
        ("csiso88598e", "iso-8859-8"),
        ("iso-ir-157", "iso-8859-10"),
        ("csisolatin9", "iso-8859-15"),
        ("csksc56011987", "euc-kr"),
        ("iso-8859-12", None),
        ("windows-1259", None),
        ("rot13", None),
        ("idna", None),
        ("unicode_escape", None),
        ("hz-gb-2312", None),
        ("", None),
        ("x" * 10_000, None),
    ],
)
def test_labels_mean_what_the_standard_says(label: str, name: str | None) -> None:
    assert encoding_from_label(label) == name


def test_every_encoding_can_be_decoded() -> None:
    parts = [*range(2, 9), 10, 13, 14, 15, 16]
    names = {
        *_NAMES.values(),
        *(f"iso-8859-{part}" for part in parts),
        *(f"windows-{page}" for page in range(1250, 1259)),
    }
    for name in names:
        assert isinstance(b"\xff<a>".decode(get_python_codec(name), "replace"), str)
        assert decode_text(b"<a>\0", f"text/html; charset={name}")[1] == name


@settings(deadline=None)
@given(st.binary(max_size=200), st.none() | st.text(max_size=60), st.sampled_from([*sorted(_NAMES), "iso-8859-7", "x"]))
@example(b"\x1b$B\x1b", None, "iso-2022-jp")
def test_any_bytes_are_text(body: bytes, content_type: str | None, label: str) -> None:
    for header in (content_type, f"text/html; charset={label}"):
        text, name = decode_text(body, header)
        assert text.encode("utf-8").decode() == text
        assert encoding_from_label(name) is not None
    text, _ = decode_text(META % label.encode() + body, content_type)
    assert text.encode("utf-8").decode() == text


@pytest.mark.parametrize(
    "piece", [b"<meta ", b"<meta charset", b"<!--", b"<!-->", b"charset=", b"<meta a='", b"<?xml ", b"="]
)
def test_a_hostile_head_takes_no_time(piece: bytes) -> None:
    started = time.process_time()
    decode_text(b"charset" + piece * 100_000, "charset=" * 100_000)
    assert time.process_time() - started < 0.1


def test_unknown_labels_do_not_pile_up() -> None:
    for number in range(2 * LABELS_CACHED):
        encoding_from_label(f"x-{number}")
    assert _encoding_from_label.cache_info().currsize <= LABELS_CACHED


async def test_decoding_in_a_thread_leaves_time_to_others() -> None:
    """Also if every byte is an error."""
    size = 15_000_000
    decoding = asyncio.ensure_future(asyncio.to_thread(decode_text, b"\x81 " * size, "text/html; charset=big5"))
    turns = 0
    while not decoding.done():
        await asyncio.sleep(0.001)
        turns += 1
    assert (await decoding)[0] == "\ufffd " * size
    assert turns > 10


@pytest.mark.parametrize(
    ("name", "body", "text"),
    [
        ("euc-jp", b"\xad\xa1\xfc\xe2\xa1\xc1", "①髙～"),  # noqa: RUF001
        ("iso-2022-jp", b"\x1b$B-!\x1b(B", "①"),
        ("big5", b"\xa1\x45\xa1\xe3", "‧～"),  # noqa: RUF001
        ("koi8-u", b"\xae", "ў"),
    ],
)
def test_characters_are_those_of_the_standard(name: str, body: bytes, text: str) -> None:
    """Python's codecs do not know these, or map them to other characters."""
    assert decode_text(body, f"text/html; charset={name}") == (text, name)


@pytest.mark.parametrize("name", sorted(set(_NAMES.values())))
def test_a_long_body_is_decoded_like_a_short_one(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    draw = random.Random(name)
    sample = "ab \n<é日本ю한\U0001f600>" * 20
    body = endec.encode(sample, name, "xmlcharrefreplace") if not name.startswith("utf-16") else sample.encode(name)
    whole = decode_text(body, f"text/html; charset={name}")
    for _ in range(50):
        monkeypatch.setattr(charset, "CHUNK", draw.randint(20, 200))
        assert decode_text(body, f"text/html; charset={name}") == whole


def test_looking_for_a_declaration_takes_linear_time() -> None:
    for piece in (b"a", b"a ", b"a=", b"a='", b'a="b"\'', b"<meta ", b"<meta '", b"<!--", b"<title>"):
        times = []
        for size in (8_000, MAX_HEAD):
            body = b"charset<meta " + piece * (size // len(piece))
            times.append(min(_measure_seconds(body) for _ in range(3)))
        assert times[1] < 4 * times[0] * 2.5 + 0.02, piece


def _measure_seconds(body: bytes) -> float:
    started = time.process_time()
    charset_from_body(body)
    return time.process_time() - started


def test_a_query_is_not_encoded_beyond_the_limit() -> None:
    """A character that the encoding lacks becomes fourteen."""
    encoded = encode_query("/?" + "\ufffd" * 8_000, "shift_jis", limit=100)
    assert 100 < len(encoded) < 130
    assert encoded.startswith("/?%26%2365533%3B%26%2365533%3B")


@pytest.mark.parametrize(
    ("body", "kept"),
    [
        (b"x" * 3_000_000, 3_000_000),
        (b"x" * 3_100_000, 2_097_152),
        ("é".encode() * 1_000_000 + b"x" * 2_000_000, 3_000_000),
        (b"x" * 2_097_152 + "é".encode(), 2_097_153),
        (b"x" * 1_500_000 + "\U0001f600".encode(), 1_048_576),
    ],
    ids=["short", "long", "of one byte", "in a short chunk", "of four bytes"],
)
def test_the_text_of_a_page_takes_no_more_memory_than_the_limit(body: bytes, kept: int) -> None:
    text, name, truncated = decode_within(body, None, limit=3_000_000)
    assert (len(text), name) == (kept, "utf-8")
    assert truncated == (text != body.decode())
