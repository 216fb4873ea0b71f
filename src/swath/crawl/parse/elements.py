"""Find the HTML elements that matter to a crawler, in bounded time and memory.

lexbor builds the same tree as a browser in a fraction of a millisecond. A page whose tree could be large or slow to
build goes to a scanner that only tells tags from text. It is slower on most pages, but takes linear time on all.
"""

import re
from collections.abc import Iterator, Mapping
from html.entities import html5
from typing import NamedTuple

from selectolax.lexbor import LexborHTMLParser

from swath.crawl.parse.markup import ATTRIBUTE, MARKUP, RAW_TEXT, find_raw_end
from swath.crawl.parse.page_text import PageText

MAX_TITLE_TEXT = 8_000  # characters before character references are decoded
MAX_ATTRIBUTES = 100
MAX_ATTRIBUTE_TEXT = 1_000_000  # characters of a tag that are searched for attributes

SELECTOR = "a,area,link,base,meta,frame,iframe,title"
HEAD_SELECTOR = "link,base,meta,title"  # what a page without links is about
NAMES = frozenset(SELECTOR.split(","))
MAX_NAME = max(map(len, (*NAMES, *RAW_TEXT)))


class Element(NamedTuple):
    """An element with its lowercase name. `text` is set for titles only."""

    name: str
    attributes: Mapping[str, str | None]
    text: str = ""


def find_elements(page: PageText, *, links: bool = True) -> Iterator[Element]:
    """Yield the elements in `SELECTOR` in document order. Without `links`, those of `HEAD_SELECTOR` suffice."""
    tree = page.get_tree()
    return scan_elements(page.text) if tree is None else _search_tree(tree, SELECTOR if links else HEAD_SELECTOR)


def _search_tree(tree: LexborHTMLParser, selector: str) -> Iterator[Element]:
    new = tuple.__new__
    for node in tree.css(selector):
        name = node.tag or ""
        if name == "title":
            parent = node.parent
            # SVG elements have titles too.
            if parent is None or parent.tag in ("head", "body", "html"):
                yield Element(name, {}, node.text())
        else:
            # tuple.__new__ is faster than Element(…), and there are many elements.
            yield new(Element, (name, node.attributes, ""))


_REFERENCE = re.compile(r"&(#[0-9]{1,8};?|#[xX][0-9a-fA-F]{1,8};?|[a-zA-Z][a-zA-Z0-9]{0,40};?)(=?)")


def scan_elements(text: str) -> Iterator[Element]:
    """Yield the same elements without building a tree, in linear time."""
    place = 0
    while (found := MARKUP.search(text, place)) is not None:
        place = found.end()
        if found.start(1) < 0:
            continue
        if text[place - 1] != ">":
            return  # the text ends within a tag, which does not count as one
        start, end = found.span(1)
        name = text[start:end].lower() if end - start <= MAX_NAME else ""
        inside = ""
        if name in RAW_TEXT:
            stop = find_raw_end(name, text, place)
            inside = text[place : min(stop, place + MAX_TITLE_TEXT)] if name == "title" else ""
            place = stop
        if name in NAMES:
            start, end = found.span(2)
            attributes = text[start : min(end, start + MAX_ATTRIBUTE_TEXT)]
            yield Element(name, _parse_attributes(attributes), _unescape(inside))


def _parse_attributes(text: str) -> dict[str, str | None]:
    found: dict[str, str | None] = {}
    for count, parts in enumerate(ATTRIBUTE.finditer(text)):
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
