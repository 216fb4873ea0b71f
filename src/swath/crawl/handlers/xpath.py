"""XPathSelection: what an XPath expression matches. lxml parses the page a second time for it."""

from collections.abc import Sequence
from typing import Any, Final

from swath import MissingExtra
from swath.crawl.handlers.errors import InvalidSelector, PageTooComplex
from swath.crawl.handlers.selection import URL_ATTRIBUTES, Matches
from swath.crawl.handlers.tree import TOO_COMPLEX
from swath.crawl.parse.page_text import PageText

NAMESPACES: Final = {"re": "http://exslt.org/regular-expressions"}  # as in Scrapy: re:test(@href, "\\d")
_EMPTY: Final = "<html><body/></html>"

Value = str | float | bool


class XPathSelection(Matches[Any], Sequence["XPathSelection"]):
    """What an XPath expression matches: elements, or texts for expressions such as `//a/@href` and `//p/text()`.

    If the value of the expression is a text, a number or a boolean, it is the only match. A selection whose value is
    False is false.
    """

    __slots__ = ()  # the parts are elements of lxml, and values

    def xpath(self, expression: str) -> "XPathSelection":
        """Return what an expression matches, relative to each of these elements: `.//a` is inside of them."""
        elements = [part for part in self._parts if not isinstance(part, Value)]
        found: list[Any] = []
        seen: set[int] = set()
        for part in (part for element in elements for part in find_parts(element, expression)):
            if isinstance(part, Value) or id(part) not in seen:  # an element may be in several of these
                seen.add(id(part))
                found.append(part)
        return XPathSelection(found, f"{self._expression} {expression}", self._resolve)

    @property
    def value(self) -> Value | None:
        """The text, number or boolean that the first match is; None if it is an element, or if there is no match."""
        return self._parts[0] if self._parts and isinstance(self._parts[0], Value) else None

    @property
    def tag(self) -> str | None:
        """The name of the first element, in lowercase."""
        return self._parts[0].tag if self._parts and not isinstance(self._parts[0], Value) else None

    @property
    def html(self) -> str | None:
        """The HTML of the first element."""
        if not self._parts or isinstance(self._parts[0], Value):
            return None
        from lxml import etree

        markup: str = etree.tostring(self._parts[0], encoding="unicode", method="html", with_tail=False)
        return markup

    def _read_text(self, part: Any) -> str:
        match part:
            case bool():
                text = "true" if part else "false"
            case float():
                text = _format_number(part)
            case str():
                text = part
            case _:
                text = part.xpath("string()", smart_strings=False)
        return " ".join(text.split())

    def _read_attribute(self, part: Any, name: str) -> str | None:
        return None if isinstance(part, Value) else part.get(name)

    def _read_link(self, part: Any) -> str | None:
        if isinstance(part, Value):
            return part if isinstance(part, str) else None
        return next((value for name in URL_ATTRIBUTES if (value := part.get(name)) is not None), None)

    def __bool__(self) -> bool:
        return bool(self._parts) and self._parts[0] is not False

    def __repr__(self) -> str:
        return f"<XPathSelection {self._expression!r}: {len(self._parts)} matches>"


def parse_xpath_tree(page: PageText) -> Any:
    """Return the tree of a page for XPath. Raise PageTooComplex if it could take much time or memory."""
    etree = _import_etree()
    if not page.is_safe_for_tree():
        raise PageTooComplex(TOO_COMPLEX)
    text = page.text.replace("\0", "\ufffd")
    parser = etree.HTMLParser(encoding="utf-8", huge_tree=True)
    root = etree.fromstring((text if text.strip() else _EMPTY).encode("utf-8", "replace"), parser)
    if any(entry.type_name == "ERR_RESOURCE_LIMIT" for entry in parser.error_log):
        raise PageTooComplex(TOO_COMPLEX)  # lxml would continue with a part of the tree
    return etree.fromstring(_EMPTY) if root is None else root  # such as for a page that is one comment


def find_parts(root: Any, expression: str) -> list[Any]:
    """Return the elements and values that an expression matches. Raise InvalidSelector if it is not valid XPath."""
    etree = _import_etree()
    try:
        found = root.xpath(expression, namespaces=NAMESPACES, smart_strings=False)
    except (etree.XPathError, ValueError) as error:  # ValueError: characters that XML does not have
        raise InvalidSelector(_describe_mistake(expression, error)) from None
    if not isinstance(found, list):
        return [found]
    return [part for one in found if (part := _convert(one)) is not None]


def check_expression(expression: str) -> None:
    """Raise InvalidSelector if an expression is not valid XPath, and MissingExtra if lxml is not installed."""
    find_parts(_import_etree().fromstring(_EMPTY), expression)


def _convert(node: Any) -> Any:
    """Return an element or a text as it is, the text of a comment, and None for a namespace."""
    if isinstance(node, str) or (not isinstance(node, tuple) and isinstance(node.tag, str)):
        return node
    return None if isinstance(node, tuple) else node.text or ""


def _format_number(number: float) -> str:
    """Return a number as XPath writes it."""
    if number != number:
        return "NaN"
    if number in (float("inf"), float("-inf")):
        return "Infinity" if number > 0 else "-Infinity"
    return str(int(number)) if number == int(number) else repr(number)


def _describe_mistake(expression: str, error: Exception) -> str:
    hint = ". Use css() for CSS selectors" if expression[:1] in ("", ".", "#") and "/" not in expression else ""
    return f"{expression!r} is not a valid XPath expression: {error}{hint}"


def _import_etree() -> Any:
    try:
        from lxml import etree
    except ModuleNotFoundError as error:
        raise MissingExtra("page.xpath() needs lxml: pip install 'swath[xpath]'") from error
    return etree
