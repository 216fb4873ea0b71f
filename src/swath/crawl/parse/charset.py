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

import endec
from endec.exceptions import EncodeError

PRESCAN = 1_024  # bytes in which the standard looks for a declaration
MAX_HEAD = 32 * 1024  # bytes in which browsers look for one if the head is longer
MAX_HEADER = 1_000
MAX_LABEL = 40
LABELS_CACHED = 256
FALLBACK = "windows-1252"
CHUNK = 64 * 1024  # bytes per call: endec holds the GIL until it returns

_UNICODE = frozenset({"utf-8", "utf-16le", "utf-16be"})  # a query is then UTF-8
_NOT_ASCII = re.compile(r"[^\x00-\x0d\x10-\x1a\x1c-\x7f]+")  # and what switches character sets in ISO-2022-JP
_STATEFUL = frozenset({"iso-2022-jp", "utf-16le", "utf-16be"})
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
_ATTRIBUTE = re.compile(rb"([^\s\"'>/=]+)\s*=\s*(?:\"([^\"]*)\"|'([^']*)'|([^\s\"'>]+))")
_END_OF_HEAD = re.compile(  # an element that does not belong there ends the head
    rb"</head|<(?!(?:html|head|meta|title|link|script|style|base|noscript)[\s/>])[a-z]", re.IGNORECASE
)
_XML = re.compile(rb"\s*<\?xml[^>]{0,200}?\sencoding\s*=\s*[\"']([A-Za-z0-9._-]+)")


def decode_text(body: bytes, content_type: str | None) -> tuple[str, str]:
    """Return the text of a body and the name of its encoding. Invalid bytes become U+FFFD."""
    name = _detect_bom(body)
    if name is not None:
        return _decode_with(body, name).removeprefix("\ufeff"), name
    name = charset_from_header(content_type) or charset_from_body(body)
    if name is None:
        try:
            # A truncated body may end within a character.
            return codecs.utf_8_decode(body, "strict", False)[0], "utf-8"
        except UnicodeDecodeError:
            name = FALLBACK
    return _decode_with(body, name), name


def _decode_with(body: bytes, name: str) -> str:
    return "".join(endec.decode(chunk, name, "replace", bom="ignore") for chunk in _split_at_spaces(body, name))


def _split_at_spaces(body: bytes, name: str) -> Iterator[bytes]:
    """Yield the body in chunks that can be decoded one by one.

    No multibyte character of any encoding contains a space or a line break, except in those with a state.
    """
    if name in _STATEFUL or len(body) <= CHUNK:
        yield body
        return
    start = 0
    while start < len(body):
        end = start + CHUNK
        if end < len(body):
            space = max(body.rfind(b" ", start, end), body.rfind(b"\n", start, end))
            end = space if space > start else end  # text without a space in 64 KB is not text
        yield body[start:end]
        start = end


def encode_query(url: str, name: str) -> str:
    """Percent-encode the characters in the query of a link in the encoding of its page, as browsers do.

    The server that wrote the page expects its own encoding there. A character that the encoding lacks becomes a
    character reference.
    """
    head, mark, query = url.partition("?")
    if name in _UNICODE or not _NOT_ASCII.search(query):
        return url
    query, fragment_mark, fragment = query.partition("#")
    encoded = _NOT_ASCII.sub(lambda run: "".join(_percent_encode(run[0], name)), query)
    return head + mark + encoded + fragment_mark + fragment


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
