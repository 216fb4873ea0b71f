"""The tree of an HTML page for selectors, unless it could take much time or memory."""

from typing import Final

from selectolax.lexbor import LexborHTMLParser

from swath.crawl.handlers.errors import PageTooComplex
from swath.crawl.parse.page_text import PageText
from swath.crawl.parse.tree_limits import MAX_DEPTH, MAX_TAGS, MAX_TEXT

TOO_COMPLEX: Final = (
    f"the page is too large, or nested too deep, for selectors (at most {MAX_TEXT:,} characters, {MAX_TAGS:,} "
    f"tags and {MAX_DEPTH} levels): use page.text, for example with a regular expression"
)


def require_tree(page: PageText) -> LexborHTMLParser:
    """Return the tree of a page. Raise PageTooComplex if it could take too much."""
    tree = page.get_tree()
    if tree is None:
        raise PageTooComplex(TOO_COMPLEX)
    return tree
