"""Decide whether lexbor can build the tree of a page in bounded memory and nearly linear time.

Some start tags walk the stack of open elements, so deep nesting takes quadratic time. So do thousands of attributes in
one tag. By the HTML standard, formatting elements that are still open are reopened in every block, so that a few
kilobytes can produce a tree of gigabytes. And lexbor records each parse error, which takes 20 bytes per NUL.

Most pages are so small that none of this matters, which a few searches show. The tags of the others are counted one by
one. The count may refuse an honest page with unusual markup, but must not accept a page that nests deeper.
"""

import re

from swath.crawl.parse.markup import ATTRIBUTE, MARKUP, RAW_TEXT, build_many_attributes, find_raw_end

MAX_TEXT = 2_000_000  # characters
MAX_TAGS = 50_000
MAX_ATTRIBUTES = 200_000
MAX_TAG_ATTRIBUTES = 1_000  # of one tag: the parser compares them all
MAX_FEW_TAGS = 5_000  # tags that are not counted one by one: nesting all of them takes 20 ms
MAX_SHORT_TEXT = 3 * MAX_ATTRIBUTES  # characters: an attribute takes three
MAX_DEPTH = 512  # open elements, as in browsers
MAX_REOPENED = 100_000  # formatting elements times tags: upper bound of the nodes that reopening creates


def _names(text: str) -> frozenset[str]:
    return frozenset(text.split())


# Elements that the parser reopens if they were not closed. `a` is omitted: at most one is ever open.
_FORMATTING = re.compile(
    r"<[bisuefct](?:[\s/>]|m[\s/>]|ont[\s/>]|ode[\s/>]|t(?:rong|rike)?[\s/>]|mall[\s/>]|ig[\s/>])", re.IGNORECASE
)
_REOPENED = _names("a b big code em font i nobr s small strike strong tt u")
_MANY_ATTRIBUTES = build_many_attributes(MAX_TAG_ATTRIBUTES)
_VOID = _names(
    "area base basefont bgsound br col embed frame hr image img input keygen link meta param source track wbr"
)
# In a drawing or a formula, names have no meaning, and a tag that ends with "/>" has no content.
_FOREIGN = frozenset(("svg", "math"))
_HTML_IN_FOREIGN = _names("annotation-xml desc foreignobject mi mn mo ms mtext title")
_LEAVES_FOREIGN = _names(
    "b big blockquote body br center code dd div dl dt em embed font h1 h2 h3 h4 h5 h6 head hr i img li "
    "listing menu meta nobr ol p pre ruby s small span strike strong sub sup table tt u ul var"
)
_AMBIGUOUS = _FOREIGN | {"select", "frameset"}  # in these, the parser ignores most tags or reads them otherwise
# Elements that are always open after their start tag, and whose end tag closes what is open in them.
_BLOCKS = _names(
    "address article aside blockquote center details dir div dl fieldset figcaption figure footer header "
    "hgroup main menu nav ol pre section summary table ul"
)
_TABLE_PARENTS = {
    "td": ("tr",),
    "th": ("tr",),
    "tr": ("tbody", "thead", "tfoot", "table"),
    **dict.fromkeys(("tbody", "thead", "tfoot", "caption", "colgroup"), ("table",)),
}
_TABLE = frozenset(_TABLE_PARENTS) | {"table"}
_CELLS = ("td", "th", "caption")
_ENDS_CELL = frozenset(("td", "th", "tr"))
_LISTED = {"li": ("li",), "dd": ("dd", "dt"), "dt": ("dd", "dt")}
# Elements that end directly before another of their kind.
_ENDED_BY: dict[str, tuple[str, ...]] = {
    "p": ("p",),
    "option": ("option",),
    "td": _CELLS[:2],
    "th": _CELLS[:2],
} | _LISTED
_IMPLIED = _names("p li dd dt")  # elements that end with the block that they are in
_MAX_IMPLIED = 8  # elements that one end tag closes
_CLOSES_INLINE = _REOPENED | _names("p span label sub sup font form body html head")  # never closes a block


def is_safe_for_tree(text: str) -> bool:
    """Return whether the tree of this text is certainly small and quick to build."""
    if len(text) > MAX_TEXT:
        return False
    tags = text.count("<")
    if tags > MAX_TAGS:
        return False
    return _is_harmless(text, tags) or _count_tags(text)


def _is_harmless(text: str, tags: int) -> bool:
    """Return whether no order of the tags could do harm."""
    if tags > MAX_FEW_TAGS or len(text) > MAX_SHORT_TEXT:
        return False
    # At most three equal elements are reopened; those with attributes may all differ.
    formatting = _FORMATTING.findall(text)
    plain = [tag for tag in formatting if tag[-1] == ">"]
    if tags * (3 * len(set(plain)) + len(formatting) - len(plain)) > MAX_REOPENED:
        return False
    return _MANY_ATTRIBUTES.search(text) is None


def _count_tags(text: str) -> bool:
    """Return whether the text has no tag with many attributes and nests neither deep nor with formatting elements."""
    nesting = _Nesting()
    place = number = 0
    while (found := MARKUP.search(text, place)) is not None:
        place = found.end()
        if found[1] is None:
            if not nesting.read_other(found[0]):
                return False
            continue
        attributes = found[2]
        if len(text) > MAX_SHORT_TEXT:
            number += _limit_attributes(attributes)
        if number > MAX_ATTRIBUTES or (len(attributes) >= 2 * MAX_TAG_ATTRIBUTES and _has_many_attributes(attributes)):
            return False
        name = found[1].lower()
        end = find_raw_end(name, text, place) if name in RAW_TEXT else place
        if nesting.may_be_markup():
            if "<" in text[place:end]:
                return False  # text or markup, which could hide what follows
        elif name in RAW_TEXT:
            place = end
            continue
        if not nesting.open(name, closes_itself=attributes.endswith("/")):
            return False
    return True


def _limit_attributes(text: str) -> int:
    """Return an upper bound of the attributes: white space, "/" or the end of a value precedes each of them."""
    return len(text.split()) + text.count("/") + (text.count('"') + text.count("'")) // 2 if text else 0


def _has_many_attributes(text: str) -> bool:
    return any(count >= MAX_TAG_ATTRIBUTES for count, _ in enumerate(ATTRIBUTE.finditer(text)))


class _Nesting:
    """The elements that may be open: at least those on the parser's stack that have a start tag.

    An end tag closes an element here only if the parser certainly closes it too. The parser also closes elements that
    stay open here. A block among them would mislead a later end tag, so blocks below `_sure` end only if nothing else
    is open in them.
    """

    def __init__(self) -> None:
        self._open: list[str] = []
        self._sure = 0
        self._formatting = 0  # of the open elements
        self._reopened = 0
        self._foreign = 0
        self._in_foreign = False  # the parser has not left the innermost drawing
        self._ambiguous = 0
        self._templates = 0

    def may_be_markup(self) -> bool:
        """Return whether the parser may read the content of an element in `RAW_TEXT` as markup."""
        return self._ambiguous > 0

    def open(self, name: str, *, closes_itself: bool) -> bool:
        """Add an element. Return whether the limits hold."""
        names = self._open
        self._reopened += self._formatting
        if self._foreign:
            if name in _LEAVES_FOREIGN:
                self._in_foreign = False
            elif closes_itself and self._is_certainly_foreign():
                return self._reopened <= MAX_REOPENED
        elif name in _VOID:
            return self._reopened <= MAX_REOPENED
        else:
            self._end_before(name)
        names.append(name)
        self._count(name, 1)
        return len(names) <= MAX_DEPTH and self._reopened <= MAX_REOPENED

    def _end_before(self, name: str) -> None:
        """Close what a start tag certainly closes, and note if it may close more."""
        names = self._open
        if name in _ENDS_CELL and names[-1:] == ["p"] and len(names) > 1 and names[-2] in _CELLS:
            names.pop()
        if names and names[-1] in _ENDED_BY.get(name, ()):
            names.pop()
        if name == "tr":
            for ended in (_CELLS, ("tr",)):
                if names and names[-1] in ended:
                    names.pop()
        self._sure = min(self._sure, len(names))
        if name in _LISTED:
            if self._may_end_list_item(_LISTED[name]):
                self._sure = len(names)
        elif name == "table":
            inner = next((one for one in reversed(names) if one in _TABLE), None)
            if inner is not None and (inner not in _CELLS or self._sure):
                self._sure = len(names)
        elif name in _TABLE_PARENTS:
            if not names or names[-1] not in _TABLE_PARENTS[name]:
                self._sure = len(names)
        elif name == "frameset" or (name == "button" and name in names):
            self._sure = len(names)

    def _may_end_list_item(self, kinds: tuple[str, ...]) -> bool:
        for place in range(len(self._open) - 1, self._sure - 1, -1):
            name = self._open[place]
            if name in kinds:
                return True
            if name in _BLOCKS and name != "div" and name != "address":
                return False
        return self._sure > 0

    def read_other(self, markup: str) -> bool:
        """Close what an end tag certainly closes. Return whether the markup is understood."""
        if markup[1] != "/":
            # In a drawing, CDATA does not end with ">".
            return not (self._foreign and markup.startswith("<!["))
        name = markup[2:].lower()
        if not name.isalnum():
            if '"' in name or "'" in name:
                return False  # attributes of an end tag may contain ">"
            name = name.replace("/", " ").partition(" ")[0].strip()
        names = self._open
        if names and names[-1] == name:
            names.pop()
            self._count(name, -1)
        elif not (name in _BLOCKS and not self._ambiguous and not self._templates and self._close_block(name)):
            self._in_foreign = False
            if name not in _CLOSES_INLINE:
                self._sure = len(names)
        self._sure = min(self._sure, len(names))
        return True

    def _close_block(self, name: str) -> bool:
        """Close a block with the elements in it that need no end tag, unless others are open in it."""
        names = self._open
        implied = _IMPLIED | _TABLE if name == "table" else _IMPLIED
        for place in range(len(names) - 1, max(self._sure, len(names) - 1 - _MAX_IMPLIED) - 1, -1):
            if names[place] == name:
                del names[place:]
                return True
            if names[place] not in implied:
                return False
        return False

    def _is_certainly_foreign(self) -> bool:
        """Return whether the parser reads a drawing or a formula, and not HTML inside it."""
        if not self._in_foreign:
            return False
        inner = next(one for one in reversed(self._open) if one in _FOREIGN or one in _HTML_IN_FOREIGN)
        return inner in _FOREIGN

    def _count(self, name: str, number: int) -> None:
        if name in _REOPENED:
            self._formatting += number
        elif name in _FOREIGN:
            self._foreign += number
            if number > 0:
                self._in_foreign = "select" not in self._open
        elif name == "template":
            self._templates += number
        if name in _AMBIGUOUS:
            self._ambiguous += number
