"""Build the tree of an HTML page, unless the page could take much time or memory."""

from selectolax.lexbor import LexborHTMLParser

from swath.crawl.handlers.errors import PageTooComplex
from swath.crawl.parse.tree_limits import MAX_DEPTH, MAX_TAGS, MAX_TEXT, is_safe_for_tree


def parse_tree(text: str) -> LexborHTMLParser:
    """Return the tree of a page, as a browser builds it. Raise PageTooComplex if that may take too much."""
    if not is_safe_for_tree(text):
        raise PageTooComplex(
            f"the page is too large, or nested too deep, for selectors (at most {MAX_TEXT:,} characters, {MAX_TAGS:,} "
            f"tags and {MAX_DEPTH} levels): use page.text, for example with a regular expression"
        )
    return LexborHTMLParser(text)
