"""PageText: the text of an HTML page, and its tree."""

from selectolax.lexbor import LexborHTMLParser

from swath.crawl.parse.tree_limits import is_safe_for_tree

TREE_BYTES = 100_000  # of memory that a tree takes at least
TREE_FACTOR = 12  # bytes of memory for each character of an ordinary page, of which XPath's tree takes 3.6


class PageText:
    """The text of a page. Its tree is built on first use, and once, for the crawler's links and handlers' selectors."""

    __slots__ = ("_is_safe", "_tree", "charset", "text")

    def __init__(self, text: str, charset: str = "utf-8") -> None:
        """`charset` is the encoding that the page was decoded from."""
        self.text = text
        self.charset = charset
        self._is_safe: bool | None = None
        self._tree: LexborHTMLParser | None = None

    def is_safe_for_tree(self) -> bool:
        """Return whether a tree takes little time and memory."""
        if self._is_safe is None:
            self._is_safe = is_safe_for_tree(self.text)
        return self._is_safe

    def get_tree(self) -> LexborHTMLParser | None:
        """Return the tree of the page, as a browser builds it; None if that could take much time or memory."""
        if self._tree is None and self.is_safe_for_tree():
            self._tree = LexborHTMLParser(self.text)
        return self._tree


def estimate_memory(characters: int) -> int:
    """Return how many bytes the text and the tree of an ordinary page take."""
    return TREE_BYTES + TREE_FACTOR * characters
