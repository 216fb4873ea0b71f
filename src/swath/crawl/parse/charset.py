"""Decode the bytes of a page to text, as browsers do.

The charset is that of the byte order mark, the header, or the declaration in the head of the page, in this order.
Otherwise it is UTF-8 if the body is valid UTF-8, and else windows-1252. Statistical detection is not used: it took
milliseconds per page and mistook French for Baltic. Nearly all links are ASCII and survive a wrong charset.

endec decodes with the tables of the Encoding standard, which differ from Python's codecs in hundreds of characters of
EUC-JP, ISO-2022-JP and Big5.
"""

import codecs
import re
from collections.abc import Iterator
from functools import lru_cache
from itertools import chain
from sys import getsizeof

import endec
from endec.exceptions import EncodeError

PRESCAN = 1_024  # bytes in which the standard looks for a declaration
MAX_HEAD = 32 * 1024  # bytes in which browsers look for one if the head is longer
MAX_HEADER = 1_000
MAX_LABEL = 40
LABELS_CACHED = 256
FALLBACK = "windows-1252"
CHUNK = 64 * 1024  # bytes per call: endec holds the GIL until it returns
LARGE_CHUNK = 1024 * 1024
SHORT = 1_024  # characters

_UNICODE = frozenset({"utf-8", "utf-16le", "utf-16be"})  # a query is then UTF-8
_NOT_ASCII = re.compile(r"[^\x00-\x0d\x10-\x1a\x1c-\x7f]+")  # and what switches character sets in ISO-2022-JP
# Names of the Encoding standard that differ from the name of the Python codec, which feeds are decoded with in chunks.
_CODECS = {
    "windows-874": "cp874",
    "windows-1252": "cp1252",
    "ibm866": "cp866",
    "iso-8859-8-i": "iso8859_8",
    "macintosh": "mac_roman",
    "x-mac-cyrillic": "mac_cyrillic",
    "gbk": "gb18030",
    "big5": "big5hkscs",
    "euc-kr": "cp949",
    "shift_jis": "cp932",
    "utf-16le": "utf-16-le",
    "utf-16be": "utf-16-be",
}
# Labels that the patterns below do not match, with "-" for "_".
_LABELS = {
    "utf-8": "utf8 utf-8 unicode-1-1-utf-8 unicode11utf8 unicode20utf8 x-unicode20utf8",
    "windows-1252": "ascii us-ascii ansi-x3.4-1968 cp819 ibm819 iso-ir-100 csisolatin1 x-user-defined",
    "windows-1254": "csisolatin5 iso-ir-148",
    "windows-874": "tis-620 dos-874",
    "ibm866": "866 cp866 ibm866 csibm866",
    "iso-8859-2": "csisolatin2 iso-ir-101",
    "iso-8859-3": "csisolatin3 iso-ir-109",
    "iso-8859-4": "csisolatin4 iso-ir-110",
    "iso-8859-5": "cyrillic csisolatincyrillic iso-ir-144",
    "iso-8859-6": "arabic csisolatinarabic asmo-708 ecma-114 iso-ir-127 csiso88596e csiso88596i",
    "iso-8859-7": "greek greek8 csisolatingreek ecma-118 elot-928 iso-ir-126 sun-eu-greek",
    "iso-8859-8": "hebrew visual csisolatinhebrew iso-ir-138 csiso88598e",
    "iso-8859-8-i": "logical csiso88598i",
    "iso-8859-10": "csisolatin6 iso-ir-157",
    "iso-8859-15": "csisolatin9",
    "koi8-r": "koi koi8 koi8-r cskoi8r",
    "koi8-u": "koi8-u koi8-ru",
    "macintosh": "mac macintosh x-mac-roman csmacintosh",
    "x-mac-cyrillic": "x-mac-cyrillic x-mac-ukrainian",
    "gbk": "gbk gb2312 gb-2312 gb-2312-80 chinese csgb2312 csiso58gb231280 iso-ir-58 x-gbk cp936",
    "gb18030": "gb18030",
    "big5": "big5 big5-hkscs cn-big5 csbig5 x-x-big5",
    "euc-jp": "euc-jp x-euc-jp cseucpkdfmtjapanese",
    "iso-2022-jp": "iso-2022-jp csiso2022jp",
    "shift_jis": "shift-jis sjis x-sjis ms-kanji ms932 windows-31j csshiftjis cp932",
    "euc-kr": "euc-kr cseuckr korean ks-c-5601-1987 ks-c-5601-1989 ksc5601 ksc-5601 csksc56011987 windows-949 cp949 "
    "iso-ir-149",
    "utf-16le": "utf-16 utf-16le ucs-2 unicode csunicode iso-10646-ucs-2 unicodefeff",
    "utf-16be": "utf-16be unicodefffe",
}
_NAMES = {label: name for name, labels in _LABELS.items() for label in labels.split()}
_ISO = re.compile(r"(?:iso-?8859-?([1-9]|1[013-6])(-[ei])?(?::\d{4})?)")
_LATIN = re.compile(r"l(?:atin-?)?([1-69])")
_WINDOWS = re.compile(r"(?:windows-|x-cp|cp)(125[0-8]|874)")
_LATIN_PARTS = {"5": "9", "6": "10", "9": "15"}
_MOVED_PARTS = {"1": "windows-1252", "9": "windows-1254", "11": "windows-874"}

_HEADER = re.compile(r"charset\s*=\s*[\"']?([^\s\"';,]+)", re.IGNORECASE)
_COMMENT = re.compile(rb"<!--.*?(?:-->|$)", re.DOTALL)
_META = re.compile(rb"<meta[\s/]((?:\"[^\"]*\"|'[^']*'|[^>\"'])*)", re.IGNORECASE)
_ATTRIBUTE = re.compile(
    rb"([^\s\"'>/=]++)(?:\s*+=\s*+(?:\"([^\"]*+)\"|'([^']*+)'|([^\s\"'>]++)))?+"  # linear: each byte is consumed
)
_END_OF_HEAD = re.compile(  # an element that does not belong there ends the head
    rb"</head|<(?!(?:html|head|meta|title|link|script|style|base|noscript)[\s/>])[a-z]", re.IGNORECASE
)
_XML = re.compile(rb"\s*<\?xml[^>]{0,200}?\sencoding\s*=\s*[\"']([A-Za-z0-9._-]+)")


def decode_text(body: bytes, content_type: str | None) -> tuple[str, str]:
    """Return the text of a body and the name of its encoding. Invalid bytes become U+FFFD."""
    text, name, _ = decode_within(body, content_type, limit=None)
    return text, name


def decode_within(body: bytes, content_type: str | None, *, limit: int | None) -> tuple[str, str, bool]:
    """Return the text of a body, the name of its encoding, and whether the text is truncated.

    The text takes at most `limit` bytes of memory: one character beyond U+FFFF makes all of them take four bytes.
    """
    name = _detect_bom(body)
    if name is not None:
        text, truncated = _join_within(_decode_chunks(body, name), limit)
        return text.removeprefix("\ufeff"), name, truncated
    name = charset_from_header(content_type) or charset_from_body(body)
    if name is None:
        try:
            text, truncated = _join_within(_decode_valid_utf8(body), limit)
            return text, "utf-8", truncated
        except UnicodeDecodeError:
            name = FALLBACK
    text, truncated = _join_within(_decode_chunks(body, name), limit)
    return text, name, truncated


def _join_within(chunks: Iterator[str], limit: int | None) -> tuple[str, bool]:
    """Join the chunks that fit into `limit` bytes of memory, and return whether there are others."""
    kept: list[str] = []
    characters = width = 0
    for chunk in chunks:
        characters += len(chunk)
        width = max(width, _measure_width(chunk))
        if limit is not None and characters * width > limit:
            return "".join(kept), True
        kept.append(chunk)
    return "".join(kept), False


def _measure_width(text: str) -> int:
    """Return how many bytes of memory Python takes for each character."""
    if text.isascii():
        return 1
    if len(text) >= SHORT:  # the memory of the object itself does not count
        return getsizeof(text) // len(text)
    highest = max(text)
    return 1 if highest <= "\xff" else 2 if highest <= "\uffff" else 4


def _decode_chunks(body: bytes, name: str) -> Iterator[str]:
    if len(body) <= CHUNK:
        chunks: Iterator[bytes] = iter((body,))
    elif name in ("utf-16le", "utf-16be"):
        chunks = _split_utf16(body, high_byte=1 if name == "utf-16le" else 0)
    elif name == "iso-2022-jp":
        chunks = _split_at_escapes(body)
    else:
        chunks = _split_at_spaces(body)
    for chunk in chunks:
        yield endec.decode(chunk, name, "replace", bom="ignore")


def _decode_valid_utf8(body: bytes) -> Iterator[str]:
    """Yield the text of a body that is UTF-8, except that it may be truncated within a character."""
    if len(body) <= LARGE_CHUNK:
        yield codecs.utf_8_decode(body, "strict", False)[0]
        return
    decoder = codecs.getincrementaldecoder("utf-8")("strict")
    for start in range(0, len(body), LARGE_CHUNK):
        yield decoder.decode(body[start : start + LARGE_CHUNK])


def _split_at_spaces(body: bytes) -> Iterator[bytes]:
    """Yield the body in chunks. No character of several bytes contains a space or a line break."""
    start = 0
    while start < len(body):
        end = start + CHUNK
        if end < len(body):
            space = max(body.rfind(b" ", start, end), body.rfind(b"\n", start, end))
            end = space if space > start else end  # text without a space in 64 KB is not text
        yield body[start:end]
        start = end


def _split_utf16(body: bytes, *, high_byte: int) -> Iterator[bytes]:
    """Yield the body in chunks that do not end between two surrogates."""
    start = 0
    while start < len(body):
        end = start + CHUNK // 2 * 2
        if end < len(body) and 0xD8 <= body[end - 2 + high_byte] < 0xDC:
            end -= 2
        yield body[start:end]
        start = end


def _split_at_escapes(body: bytes) -> Iterator[bytes]:
    """Yield ISO-2022-JP in chunks. Each begins with the escape sequence that selects its character set."""
    start = 0
    escape = b""
    while start < len(body):
        end = start + CHUNK
        if end < len(body) and (place := body.rfind(b"\x1b", start + 1, end)) > 0:
            end = place
        chunk = body[start:end]
        yield chunk if chunk[:1] == b"\x1b" else escape + chunk  # two in a row are an error
        if (place := body.rfind(b"\x1b", start, end)) >= 0:
            escape = body[place : place + 3]
        start = end


def encode_query(url: str, name: str, *, limit: int) -> str:
    """Percent-encode the characters in the query of a link in the encoding of its page, as browsers do.

    The server that wrote the page expects its own encoding there. A character that the encoding lacks becomes a
    character reference. Encoding stops when the URL is longer than `limit` characters.
    """
    head, mark, query = url.partition("?")
    if name in _UNICODE or not _NOT_ASCII.search(query):
        return url
    query, fragment_mark, fragment = query.partition("#")
    encoded: list[str] = []
    size = place = 0
    for run in _NOT_ASCII.finditer(query):
        for part in chain((query[place : run.start()],), _percent_encode(run[0], name)):
            encoded.append(part)
            size += len(part)
            if size > limit:
                return head + mark + "".join(encoded)
        place = run.end()
    return head + mark + "".join(encoded) + query[place:] + fragment_mark + fragment


def _percent_encode(text: str, name: str) -> Iterator[str]:
    try:
        octets = endec.encode(text, name)
    except EncodeError:
        if len(text) == 1:
            yield f"%26%23{ord(text) if ord(text) > 0x7F else 0xFFFD}%3B"
        else:
            for character in text:
                yield from _percent_encode(character, name)
    else:
        yield "".join(chr(octet) if 0x20 < octet < 0x7F else f"%{octet:02X}" for octet in octets)


def charset_from_header(content_type: str | None) -> str | None:
    """Return the encoding in a Content-Type header, if it is known."""
    found = _HEADER.search(content_type[:MAX_HEADER]) if content_type else None
    return encoding_from_label(found[1]) if found else None


def charset_from_body(body: bytes) -> str | None:
    """Return the encoding that an HTML or XML body declares in its first kilobyte or its head, if it is known."""
    head = body[:PRESCAN]
    found = _XML.match(head)
    name = encoding_from_label(found[1].decode("ascii")) if found else None
    name = name or _find_meta_charset(head)
    if name is None and len(body) > PRESCAN:
        name = _find_meta_charset(_END_OF_HEAD.split(body[:MAX_HEAD], maxsplit=1)[0])
    # The declaration itself is ASCII, so the body cannot be UTF-16.
    return "utf-8" if name in ("utf-16le", "utf-16be") else name


def _find_meta_charset(head: bytes) -> str | None:
    if b"charset" not in head.lower():
        return None
    names = (_parse_meta_charset(meta[1]) for meta in _META.finditer(_COMMENT.sub(b"", head)))
    return next((name for name in names if name is not None), None)


def _parse_meta_charset(attributes: bytes) -> str | None:
    values: dict[bytes, str] = {}
    for found in _ATTRIBUTE.finditer(attributes):
        values.setdefault(found[1].lower(), (found[2] or found[3] or found[4] or b"").decode("latin-1"))
    if b"charset" in values:
        return encoding_from_label(values[b"charset"])
    if values.get(b"http-equiv", "").strip().lower() == "content-type":
        return charset_from_header(values.get(b"content"))
    return None


def _detect_bom(body: bytes) -> str | None:
    if body.startswith(codecs.BOM_UTF8):
        return "utf-8"
    if body.startswith(codecs.BOM_UTF16_LE):
        return "utf-16le"
    if body.startswith(codecs.BOM_UTF16_BE):
        return "utf-16be"
    return None


def get_python_codec(name: str) -> str:
    """Return the name of the Python codec for an encoding of the Encoding standard."""
    return _CODECS.get(name, name)


def encoding_from_label(label: str) -> str | None:
    """Return the name in the Encoding standard for a label; None if the label is unknown or Python has no codec."""
    return _encoding_from_label(label) if len(label) <= MAX_LABEL else None


@lru_cache(maxsize=LABELS_CACHED)
def _encoding_from_label(label: str) -> str | None:
    label = label.strip().lower().replace("_", "-")
    if label in _NAMES:
        return _NAMES[label]
    windows = _WINDOWS.fullmatch(label)
    if windows:
        return f"windows-{windows[1]}"
    iso, latin = _ISO.fullmatch(label), _LATIN.fullmatch(label)
    if iso and iso[2] == "-i" and iso[1] == "8":
        return "iso-8859-8-i"
    part = iso[1] if iso else _LATIN_PARTS.get(latin[1], latin[1]) if latin else None
    return None if part is None else _MOVED_PARTS.get(part, f"iso-8859-{part}")
