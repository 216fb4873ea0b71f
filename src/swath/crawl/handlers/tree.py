"""Build the tree of an HTML page, unless the page is made to take much time or memory.

lexbor needs time in proportion to the nesting depth at each tag, and the HTML standard reopens unclosed formatting
elements in every paragraph. `check_cost` computes upper bounds of both, up to a small factor: it closes an element only
if the standard certainly does, so markup that is not well-formed looks deeper than it is.
"""

import re

from selectolax.lexbor import LexborHTMLParser

from swath.crawl.handlers.errors import PageTooComplex
from swath.crawl.parse.elements import is_safe_for_tree

MAX_DEPTH_SUM = 100_000_000  # of the nesting depths at all tags: half a second in lexbor
MAX_REOPENED = 1_000_000  # nodes
LONG_TAG = 200  # characters; longer tags may have many attributes, which take quadratic time

_ATTRIBUTE = r"""[^\s/>][^\s/>=]*+(?:\s*+=\s*+(?:"[^"]*+"|'[^']*+'|[^\s>"'][^\s>]*+)?+)?+"""
_ATTRIBUTES = re.compile(_ATTRIBUTE)
_TOKEN = re.compile(
    rf"<(?:([a-zA-Z][^\s/>]*+)((?:([\s/]++)|{_ATTRIBUTE})*+)(?:>|\Z)|/([a-zA-Z][^\s/>]*+)[^>]*+"
    rf"|!--(?:-?>|.*?(?:--!?>|\Z))|[!?/][^>]*+)",
    re.DOTALL,
)
_RAW_ENDS = {
    name: re.compile(rf"</{name}(?=[\s/>])", re.IGNORECASE)
    for name in ("script", "style", "textarea", "title", "xmp", "iframe", "noembed", "noframes")
}


def _split(names: str) -> frozenset[str]:
    return frozenset(names.split())


_EMPTY = _split(
    "area base basefont bgsound br col embed frame hr image img input keygen link meta param source track wbr"
)
_SKIPPED = _EMPTY | {"html", "head", "body"}
_FORMATTING = _split("a b big code em font i nobr s small strike strong tt u")
_FOREIGN = _split("svg math")
_BREAKS_OUT = _split(
    "b big blockquote body br center code dd div dl dt em embed font h1 h2 h3 h4 h5 h6 head hr i img li listing menu "
    "meta nobr ol p pre ruby s small span strong strike sub sup table tt u ul var"
)  # start tags that end foreign content
_BLOCKS = _split(
    "address article aside blockquote center details dialog dir div dl fieldset figcaption figure footer header hgroup "
    "main menu nav ol p search section summary ul h1 h2 h3 h4 h5 h6 pre li dd dt"
)
_CELLS, _SECTIONS = _split("td th"), _split("tbody thead tfoot")
# The elements that a start tag closes if they are innermost.
_CLOSED_BY_START: dict[str, frozenset[str]] = {
    **dict.fromkeys(_BLOCKS, _split("p")),
    "li": _split("p li"),
    "dd": _split("p dd dt"),
    "dt": _split("p dd dt"),
    "option": _split("option"),
    "td": _CELLS,
    "th": _CELLS,
    "tr": _CELLS | {"tr"},
    **dict.fromkeys(_SECTIONS, _CELLS | _SECTIONS | {"tr"}),
}
_ITEMS = _split("p li dd dt option")
# The elements without an end tag that an end tag closes together with its own.
_CLOSED_BY_END: dict[str, frozenset[str]] = {
    **dict.fromkeys(_BLOCKS - {"p"}, _ITEMS),
    "select": _split("option optgroup"),
    "tr": _CELLS,
    **dict.fromkeys(_SECTIONS, _CELLS | {"tr"}),
    "table": _CELLS | _SECTIONS | _split("tr caption colgroup"),
}
_UNKNOWN = "?"  # stands for foreign content that may have ended


def parse_tree(text: str) -> LexborHTMLParser:
    """Return the tree of a page, as a browser builds it. Raise PageTooComplex if that may take too long."""
    if not is_safe_for_tree(text):
        check_cost(text)
    return LexborHTMLParser(text)


def check_cost(text: str) -> None:
    """Raise PageTooComplex if the tree of a page may be too large or too deep. Takes linear time."""
    stack: list[str] = []
    formatting = unsure = 0  # open elements, and those in which tags may mean something else
    foreign = -1  # where the outermost `svg` or `math` is in the stack, if it is certainly open
    depths = reopened = place = 0
    while (found := _TOKEN.search(text, place)) is not None:
        place = found.end()
        start, attributes, _, end = found.groups()
        if start is not None:
            name = start.lower()
            if len(attributes) > LONG_TAG:
                depths += sum(1 for _ in _ATTRIBUTES.finditer(attributes)) ** 2
            if foreign >= 0:
                if name in _BREAKS_OUT:
                    stack[foreign], foreign, unsure = _UNKNOWN, -1, unsure + 1
                elif attributes.endswith("/") and found.end(3) == found.end(2):  # not the end of an unquoted value
                    continue
            elif not unsure:
                if name in _SKIPPED:
                    depths += len(stack)
                    reopened += 2 * formatting
                    continue
                closed = _CLOSED_BY_START.get(name)
                while closed is not None and stack and stack[-1] in closed:
                    stack.pop()
                if name in _RAW_ENDS:
                    raw_end = _RAW_ENDS[name].search(text, place)
                    place = raw_end.end() if raw_end else len(text)
                    continue
                if name in _FOREIGN:
                    foreign = len(stack)
            stack.append(name)
            formatting += name in _FORMATTING
            unsure += name in ("select", "frameset")
            depths += len(stack)
            reopened += 2 * formatting
            if depths > MAX_DEPTH_SUM or reopened > MAX_REOPENED:
                raise PageTooComplex(
                    f"the page has elements that are nested too deep for selectors, at character {place:,} of "
                    f"{len(text):,}: use page.text, for example with a regular expression"
                )
        elif end is not None:
            name = end.lower()
            closed = _CLOSED_BY_END.get(name)
            kept = len(stack)
            while closed is not None and kept and stack[kept - 1] in closed and stack[kept - 1] != name:
                kept -= 1
            if kept and stack[kept - 1] == name:
                del stack[kept - 1 :]
                formatting -= name in _FORMATTING
                unsure -= name in ("select", "frameset")
                if len(stack) <= foreign:
                    foreign = -1
            elif foreign >= 0:
                stack[foreign], foreign, unsure = _UNKNOWN, -1, unsure + 1
