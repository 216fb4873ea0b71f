"""Find the HTML elements that matter to a crawler, in bounded time and memory.

lexbor builds the same tree as a browser in a fraction of a millisecond. But by the HTML standard a page of a few
kilobytes can produce a tree of gigabytes (formatting elements that are reopened in every paragraph), and thousands of
nested elements or attributes take quadratic time. Pages that could do this go to a scanner that only tells tags from
text. It is several times slower on an ordinary page, but takes linear time on every page.
"""

import re
from collections.abc import Iterator, Mapping
from html.entities import html5
from typing import NamedTuple

from selectolax.lexbor import LexborHTMLParser

MAX_TAGS = 5_000
MAX_REOPENED = 100_000  # formatting elements times tags: upper bound of the nodes that reopening creates
MAX_TAG = 8_000
MAX_ATTRIBUTES = 100

SELECTOR = "a,area,link,base,meta,frame,iframe,title"
NAMES = frozenset(SELECTOR.split(","))


class Element(NamedTuple):
    """An element with its lowercase name. `text` is set for titles only."""

    name: str
    attributes: Mapping[str, str | None]
    text: str = ""


def find_elements(text: str) -> Iterator[Element]:
    """Yield the elements in `SELECTOR` in document order."""
    return _parse_tree(text) if is_safe_for_tree(text) else scan_elements(text)


# Elements that the parser reopens if they were not closed. `a` is omitted: at most one is ever open.
_FORMATTING = re.compile(
    r"<[bisuefct](?:[\s/>]|m[\s/>]|ont[\s/>]|ode[\s/>]|t(?:rong|rike)?[\s/>]|mall[\s/>]|ig[\s/>])", re.IGNORECASE
)
_LONG_TAG = re.compile(rf"<[^>]{{{MAX_TAG}}}")


def is_safe_for_tree(text: str) -> bool:
    """Return whether the tree of this text is certainly small and quick to build."""
    tags = text.count("<")
    if tags > MAX_TAGS:
        return False
    half = MAX_TAG // 2
    # A tag of that length fills at least one of these windows.
    windows = range(0, len(text) - half, half)
    if any(text.find(">", start, start + half) < 0 for start in windows) and _LONG_TAG.search(text):
        return False
    # At most three equal elements are reopened; those with attributes may all differ.
    formatting = _FORMATTING.findall(text)
    plain = [tag for tag in formatting if tag[-1] == ">"]
    return tags * (3 * len(set(plain)) + len(formatting) - len(plain)) <= MAX_REOPENED


def _parse_tree(text: str) -> Iterator[Element]:
    new = tuple.__new__
    for node in LexborHTMLParser(text).css(SELECTOR):
        name = node.tag or ""
        if name == "title":
            parent = node.parent
            # SVG elements have titles too.
            if parent is None or parent.tag in ("head", "body", "html"):
                yield Element(name, {}, node.text())
        else:
            # tuple.__new__ is faster than Element(…), and there are many elements.
            yield new(Element, (name, node.attributes, ""))


_ATTRIBUTE = r"""[^\s/>][^\s/>=]*+(?:\s*+=\s*+(?:"[^"]*+"|'[^']*+'|[^\s>"'][^\s>]*+)?+)?+"""
_MARKUP = re.compile(
    rf"<(?:([a-zA-Z][^\s/>]*+)((?:[\s/]++|{_ATTRIBUTE})*+)(?:>|\Z)|!--(?:-?>|.*?(?:--!?>|\Z))|[!?/][^>]*+)",
    re.DOTALL,
)
_PARTS = re.compile(r"""([^\s/>][^\s/>=]*+)(?:\s*+=\s*+(?:"([^"]*+)"|'([^']*+)'|([^\s>"'][^\s>]*+))?+)?+""")
_REFERENCE = re.compile(r"&(#[0-9]{1,8};?|#[xX][0-9a-fA-F]{1,8};?|[a-zA-Z][a-zA-Z0-9]{0,40};?)(=?)")
# The content of these elements is text, even if it looks like markup.
_RAW_ENDS = {
    name: re.compile(rf"</{name}(?=[\s/>])", re.IGNORECASE)
    for name in ("script", "style", "textarea", "title", "xmp", "iframe", "noembed", "noframes")
}


def scan_elements(text: str) -> Iterator[Element]:
    """Yield the same elements without building a tree, in linear time."""
    place = 0
    while (found := _MARKUP.search(text, place)) is not None:
        place = found.end()
        if found[1] is None:
            continue
        if text[place - 1] != ">":
            return  # the text ends within a tag, which does not count as one
        name = found[1].lower()
        inside = ""
        if name in _RAW_ENDS:
            end = _RAW_ENDS[name].search(text, place)
            stop = end.start() if end else len(text)
            inside = text[place : min(stop, place + MAX_TAG)] if name == "title" else ""
            place = stop
        if name in NAMES:
            yield Element(name, _parse_attributes(found[2]), _unescape(inside))


def _parse_attributes(text: str) -> dict[str, str | None]:
    found: dict[str, str | None] = {}
    for count, parts in enumerate(_PARTS.finditer(text)):
        if count >= MAX_ATTRIBUTES:
            break
        name = parts[1].lower()
        if name not in found:
            value = parts[2] or parts[3] or parts[4]
            found[name] = _unescape(value) if value else value
    return found


def _unescape(text: str) -> str:
    return _REFERENCE.sub(_decode_reference, text) if "&" in text else text


def _decode_reference(found: re.Match[str]) -> str:
    """Return the character for a reference in an attribute. `&copy` is a reference, but not in `?a=1&copy=2`."""
    name, sign = found.groups()
    if name[0] == "#":
        digits = name.rstrip(";")
        number = int(digits[2:], 16) if digits[1] in "xX" else int(digits[1:])
        known = 0 < number < 0x11_0000 and not 0xD800 <= number < 0xE000
        return (chr(number) if known else "\ufffd") + sign
    if sign and name[-1] != ";":
        return found[0]
    return html5.get(name, "&" + name) + sign
