"""Selection: the elements that a CSS selector matches, and their texts, attributes and URLs."""

from collections.abc import Callable, Iterator, Sequence
from typing import Final, Generic, Never, Self, TypeVar, overload

from selectolax.lexbor import LexborHTMLParser, LexborNode, SelectolaxError

from swath.crawl.handlers.errors import InvalidSelector, NoMatch

URL_ATTRIBUTES: Final = ("href", "src", "action", "data-src")  # in the order in which `url()` looks for them

Part = TypeVar("Part")
ResolveLinks = Callable[[Sequence[str]], list[str | None]]  # returns the normalised absolute URLs of links on a page


class Matches(Generic[Part]):
    """What an expression matches on a page, in document order.

    `text()`, `attr()` and `url()` are about the first match and return None if there is none; the methods that begin
    with `must_` raise `NoMatch` instead.
    """

    __slots__ = ("_expression", "_parts", "_resolve")

    def __init__(self, parts: Sequence[Part], expression: str, resolve: ResolveLinks) -> None:
        self._parts = parts
        self._expression = expression  # for messages
        self._resolve = resolve

    # How to read one match.

    def _read_text(self, part: Part) -> str:
        raise NotImplementedError

    def _read_attribute(self, part: Part, name: str) -> str | None:
        raise NotImplementedError

    def _read_link(self, part: Part) -> str | None:
        raise NotImplementedError

    def text(self) -> str | None:
        """Return the text of the first match, with single spaces between words."""
        return self._read_text(self._parts[0]) if self._parts else None

    def must_text(self) -> str:
        """Return the text of the first match. Raise NoMatch if there is no match, or if its text is empty."""
        text = self.text()
        return text if text else self._fail("has no text" if self._parts else "matches nothing")

    def texts(self) -> list[str]:
        """Return the text of each match."""
        return [self._read_text(part) for part in self._parts]

    def attr(self, name: str) -> str | None:
        """Return an attribute of the first element; None if it lacks the attribute, "" if that has no value."""
        return self._read_attribute(self._parts[0], name) if self._parts else None

    def must_attr(self, name: str) -> str:
        """Return an attribute of the first element. Raise NoMatch if there is no element with this attribute first."""
        value = self.attr(name)
        return (
            self._fail(f"has no attribute {name!r}" if self._parts else "matches nothing") if value is None else value
        )

    def attrs(self, name: str) -> list[str]:
        """Return an attribute of each element that has it."""
        return [value for part in self._parts if (value := self._read_attribute(part, name)) is not None]

    def url(self) -> str | None:
        """Return the absolute URL of the link, image or form that the first match is, normalised as in a crawl."""
        link = self._read_link(self._parts[0]) if self._parts else None
        return None if link is None else self._resolve([link])[0]

    def must_url(self) -> str:
        """Return the URL of the first match. Raise NoMatch if there is no match with an http or https URL."""
        return self.url() or self._fail("has no http or https URL" if self._parts else "matches nothing")

    def urls(self) -> list[str]:
        """Return the URL of each match that has one."""
        links = [link for part in self._parts if (link := self._read_link(part)) is not None]
        return [url for url in self._resolve(links) if url is not None]

    def _fail(self, problem: str) -> Never:
        raise NoMatch(f"the selector {self._expression!r} {problem}")

    def _select(self, parts: Sequence[Part]) -> Self:
        return type(self)(parts, self._expression, self._resolve)

    def __iter__(self) -> Iterator[Self]:
        for part in self._parts:
            yield self._select((part,))

    def __len__(self) -> int:
        return len(self._parts)

    @overload
    def __getitem__(self, index: int, /) -> Self: ...
    @overload
    def __getitem__(self, index: slice, /) -> Self: ...
    def __getitem__(self, index: int | slice, /) -> Self:
        return self._select(self._parts[index] if isinstance(index, slice) else (self._parts[index],))


class Selection(Matches[LexborNode], Sequence["Selection"]):
    """The elements that a CSS selector matches. Each element of a selection is a selection with one element."""

    __slots__ = ()

    def css(self, selector: str) -> "Selection":
        """Return the elements inside these elements that match a CSS selector."""
        found: list[LexborNode] = []
        for node in self._parts:
            found += [one for one in find_nodes(node, selector) if one.mem_id != node.mem_id]
        if len(self._parts) > 1:  # elements of a selection may be inside each other
            found = list({node.mem_id: node for node in found}.values())
        return Selection(found, f"{self._expression} {selector}", self._resolve)

    @property
    def tag(self) -> str | None:
        """The name of the first element, in lowercase."""
        return self._parts[0].tag if self._parts else None

    @property
    def html(self) -> str | None:
        """The HTML of the first element."""
        return self._parts[0].html if self._parts else None

    def _read_text(self, part: LexborNode) -> str:
        return " ".join(part.text().split())

    def _read_attribute(self, part: LexborNode, name: str) -> str | None:
        attributes = part.attributes
        return (attributes[name] or "") if name in attributes else None

    def _read_link(self, part: LexborNode) -> str | None:
        attributes = part.attributes
        for name in URL_ATTRIBUTES:
            if (value := attributes.get(name)) is not None:
                return value
        return None

    def __repr__(self) -> str:
        return f"<Selection {self._expression!r}: {len(self._parts)} elements>"


class FoundNodes(Sequence[LexborNode]):
    """The nodes of a page that match a selector, in document order.

    The first one is looked for by itself: most selections are read with `text()` or the like, and a search that stops
    there takes half as long.
    """

    __slots__ = ("_first", "_nodes", "_selector", "_tree")

    def __init__(self, tree: LexborHTMLParser, selector: str) -> None:
        """Raise InvalidSelector if the selector is not valid CSS."""
        self._tree = tree
        self._selector = selector
        self._nodes: list[LexborNode] | None = None
        try:
            self._first = tree.css_first(selector)
        except SelectolaxError:
            raise InvalidSelector(_describe_mistake(selector)) from None

    def _find(self) -> list[LexborNode]:
        if self._nodes is None:
            self._nodes = [] if self._first is None else self._tree.css(self._selector)
        return self._nodes

    def __bool__(self) -> bool:
        return self._first is not None

    def __len__(self) -> int:
        return len(self._find())

    def __iter__(self) -> Iterator[LexborNode]:
        return iter(self._find())

    @overload
    def __getitem__(self, index: int, /) -> LexborNode: ...
    @overload
    def __getitem__(self, index: slice, /) -> list[LexborNode]: ...
    def __getitem__(self, index: int | slice, /) -> LexborNode | list[LexborNode]:
        return self._first if index == 0 and self._first is not None else self._find()[index]


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
        hint = ". It looks like XPath: use page.xpath()"
    return f"{selector!r} is not a valid CSS selector{hint}"
