"""Sitemaps in all their forms."""

from collections.abc import Iterable
from html import escape

from swath.testing.web.answer import Answer, reply
from swath.testing.web.coding import gzipped

_NAMESPACE = 'xmlns="http://www.sitemaps.org/schemas/sitemap/0.9"'
_XML = "application/xml"


def listing_text(urls: Iterable[str]) -> str:
    entries = "".join([f"<url><loc>{escape(url)}</loc></url>\n" for url in urls])
    return f'<?xml version="1.0" encoding="UTF-8"?>\n<urlset {_NAMESPACE}>\n{entries}</urlset>\n'


def listing(urls: Iterable[str], *, packed: bool = False) -> Answer:
    """A sitemap; packed, it is a gzip file and says so by its type, without any content coding."""
    body = listing_text(urls).encode()
    return reply(200, gzipped(body), content_type="application/gzip") if packed else reply(200, body, content_type=_XML)


def index(urls: Iterable[str]) -> Answer:
    entries = "".join([f"<sitemap><loc>{escape(url)}</loc></sitemap>\n" for url in urls])
    text = f'<?xml version="1.0" encoding="UTF-8"?>\n<sitemapindex {_NAMESPACE}>\n{entries}</sitemapindex>\n'
    return reply(200, text.encode(), content_type=_XML)


def text(urls: Iterable[str]) -> Answer:
    return reply(200, "".join([f"{url}\n" for url in urls]).encode(), content_type="text/plain; charset=utf-8")


def rss(home: str, urls: Iterable[str]) -> Answer:
    items = "".join([f"<item><title>{escape(url)}</title><link>{escape(url)}</link></item>\n" for url in urls])
    body = (
        '<?xml version="1.0"?>\n<rss version="2.0"><channel><title>All of it</title>'
        f"<link>{escape(home)}</link><description>What is new</description>\n{items}</channel></rss>\n"
    )
    return reply(200, body.encode(), content_type="application/rss+xml")


def atom(home: str, urls: Iterable[str]) -> Answer:
    entries = "".join(
        [
            f'<entry><title>{escape(url)}</title><id>{escape(url)}</id><link href="{escape(url)}"/>'
            "<updated>2024-01-01T00:00:00Z</updated></entry>\n"
            for url in urls
        ]
    )
    body = (
        '<?xml version="1.0"?>\n<feed xmlns="http://www.w3.org/2005/Atom"><title>All of it</title>'
        f'<id>{escape(home)}</id><link rel="alternate" href="{escape(home)}"/>'
        f"<updated>2024-01-01T00:00:00Z</updated>\n{entries}</feed>\n"
    )
    return reply(200, body.encode(), content_type="application/atom+xml")
