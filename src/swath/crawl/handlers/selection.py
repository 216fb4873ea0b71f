"""Selection: the elements that a CSS selector matches, and their texts, attributes and URLs."""

from collections.abc import Callable, Iterator, Sequence
from typing import Final, Never, overload

from selectolax.lexbor import LexborHTMLParser, LexborNode, SelectolaxError

from swath.crawl.handlers.errors import InvalidSelector, NoMatch

URL_ATTRIBUTES: Final = ("href", "src", "action", "data-src")  # in the order in which `url()` looks for them

ResolveLinks = Callable[[Sequence[str]], list[str | None]]  # returns the normalised absolute URLs of links on a page


class Selection(Sequence["Selection"]):
    """Elements of a page, in document order. Each element of a selection is a selection with one element.

    `text()`, `attr()` and `url()` are about the first element and return None if there is none; the methods that begin
    with `must_` raise `NoMatch` instead.
    """

    __slots__ = ("_nodes", "_resolve", "_selector")

    def __init__(self, nodes: Sequence[LexborNode], selector: str, resolve: ResolveLinks) -> None:
        self._nodes = nodes
        self._selector = selector  # for messages
        self._resolve = resolve

    def css(self, selector: str) -> "Selection":
        """Return the elements inside these elements that match a CSS selector."""
        found: list[LexborNode] = []
        for node in self._nodes:
            found += [one for one in find_nodes(node, selector) if one.mem_id != node.mem_id]
        if len(self._nodes) > 1:  # elements of a selection may be inside each other
            found = list({node.mem_id: node for node in found}.values())
        return Selection(found, f"{self._selector} {selector}", self._resolve)

    @property
    def tag(self) -> str | None:
        """The name of the first element, in lowercase."""
        return self._nodes[0].tag if self._nodes else None

    @property
    def html(self) -> str | None:
        """The HTML of the first element."""
        return self._nodes[0].html if self._nodes else None

    def text(self) -> str | None:
        """Return the text of the first element, with single spaces between words."""
        return _read_text(self._nodes[0]) if self._nodes else None

    def must_text(self) -> str:
        """Return the text of the first element. Raise NoMatch if there is no element, or if its text is empty."""
        text = self.text()
        return text if text else self._fail("has no text" if self._nodes else "matches nothing")

    def texts(self) -> list[str]:
        """Return the text of each element."""
        return [_read_text(node) for node in self._nodes]

    def attr(self, name: str) -> str | None:
        """Return an attribute of the first element; None if it lacks the attribute, "" if that has no value."""
        return _read_attribute(self._nodes[0], name) if self._nodes else None

    def must_attr(self, name: str) -> str:
        """Return an attribute of the first element. Raise NoMatch if there is no element with this attribute first."""
        value = self.attr(name)
        return (
            self._fail(f"has no attribute {name!r}" if self._nodes else "matches nothing") if value is None else value
        )

    def attrs(self, name: str) -> list[str]:
        """Return an attribute of each element that has it."""
        return [value for node in self._nodes if (value := _read_attribute(node, name)) is not None]

    def url(self) -> str | None:
        """Return the absolute URL of the link, image or form that the first element is, normalised as in a crawl."""
        link = _read_link(self._nodes[0]) if self._nodes else None
        return None if link is None else self._resolve([link])[0]

    def must_url(self) -> str:
        """Return the URL of the first element. Raise NoMatch if there is no element with an http or https URL."""
        return self.url() or self._fail("has no http or https URL" if self._nodes else "matches nothing")

    def urls(self) -> list[str]:
        """Return the URL of each element that has one."""
        links = [link for node in self._nodes if (link := _read_link(node)) is not None]
        return [url for url in self._resolve(links) if url is not None]

    def _fail(self, problem: str) -> Never:
        raise NoMatch(f"the selector {self._selector!r} {problem}")

    def __iter__(self) -> Iterator["Selection"]:
        for node in self._nodes:
            yield Selection((node,), self._selector, self._resolve)

    def __len__(self) -> int:
        return len(self._nodes)

    @overload
    def __getitem__(self, index: int, /) -> "Selection": ...
    @overload
    def __getitem__(self, index: slice, /) -> "Selection": ...
    def __getitem__(self, index: int | slice, /) -> "Selection":
        nodes = self._nodes[index] if isinstance(index, slice) else (self._nodes[index],)
        return Selection(nodes, self._selector, self._resolve)

    def __repr__(self) -> str:
        return f"<Selection {self._selector!r}: {len(self._nodes)} elements>"


def find_nodes(root: LexborHTMLParser | LexborNode, selector: str) -> list[LexborNode]:
    """Return the nodes that match a selector, in document order. Raise InvalidSelector if it is not valid CSS."""
    try:
        return root.css(selector)
    except SelectolaxError:
        raise InvalidSelector(_describe_mistake(selector)) from None


def check_selector(selector: str) -> None:
    """Raise InvalidSelector if a selector is not valid CSS."""
    find_nodes(LexborHTMLParser(""), selector)


def _describe_mistake(selector: str) -> str:
    hint = ""
    if "::text" in selector or "::attr" in selector:
        hint = ". Use text() or attr(name) instead of ::text and ::attr(name)"
    elif selector.startswith(("//", "./")):
        hint = ". It looks like XPath"
    return f"{selector!r} is not a valid CSS selector{hint}"


def _read_text(node: LexborNode) -> str:
    return " ".join(node.text().split())


def _read_attribute(node: LexborNode, name: str) -> str | None:
    attributes = node.attributes
    return (attributes[name] or "") if name in attributes else None


def _read_link(node: LexborNode) -> str | None:
    attributes = node.attributes
    for name in URL_ATTRIBUTES:
        if (value := attributes.get(name)) is not None:
            return value
    return None
