"""PageText: the text of an HTML page, and its tree."""

from selectolax.lexbor import LexborHTMLParser

from swath.crawl.parse.tree_limits import is_safe_for_tree

TREE_BYTES = 100_000  # of memory that a tree takes at least
TREE_FACTOR = 10  # bytes of memory for each character of an ordinary page


class PageText:
    """The text of a page. Its tree is built on first use, and once, for the crawler's links and handlers' selectors."""

    __slots__ = ("_is_checked", "_tree", "charset", "text")

    def __init__(self, text: str, charset: str = "utf-8") -> None:
        """`charset` is the encoding that the page was decoded from."""
        self.text = text
        self.charset = charset
        self._is_checked = False
        self._tree: LexborHTMLParser | None = None

    def get_tree(self) -> LexborHTMLParser | None:
        """Return the tree of the page, as a browser builds it; None if that could take much time or memory."""
        if not self._is_checked:
            self._tree = LexborHTMLParser(self.text) if is_safe_for_tree(self.text) else None
            self._is_checked = True
        return self._tree


def estimate_memory(characters: int) -> int:
    """Return how many bytes the text and the tree of an ordinary page take."""
    return TREE_BYTES + TREE_FACTOR * characters
