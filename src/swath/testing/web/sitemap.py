"""Responses with sitemaps and feeds in every format."""

from collections.abc import Iterable
from html import escape

from swath.testing.web.content_coding import encode_gzip
from swath.testing.web.scripted_response import ScriptedResponse, reply

_NAMESPACE = 'xmlns="http://www.sitemaps.org/schemas/sitemap/0.9"'
_XML = "application/xml"


def render_sitemap(urls: Iterable[str]) -> str:
    entries = "".join([f"<url><loc>{escape(url)}</loc></url>\n" for url in urls])
    return f'<?xml version="1.0" encoding="UTF-8"?>\n<urlset {_NAMESPACE}>\n{entries}</urlset>\n'


def reply_sitemap(urls: Iterable[str], *, packed: bool = False) -> ScriptedResponse:
    """Return a sitemap. With `packed` it is a gzip file of type application/gzip, without a content coding."""
    body = render_sitemap(urls).encode()
    return (
        reply(200, encode_gzip(body), content_type="application/gzip")
        if packed
        else reply(200, body, content_type=_XML)
    )


def reply_index(urls: Iterable[str]) -> ScriptedResponse:
    entries = "".join([f"<sitemap><loc>{escape(url)}</loc></sitemap>\n" for url in urls])
    reply_text = f'<?xml version="1.0" encoding="UTF-8"?>\n<sitemapindex {_NAMESPACE}>\n{entries}</sitemapindex>\n'
    return reply(200, reply_text.encode(), content_type=_XML)


def reply_text(urls: Iterable[str]) -> ScriptedResponse:
    return reply(200, "".join([f"{url}\n" for url in urls]).encode(), content_type="text/plain; charset=utf-8")


def reply_rss(home: str, urls: Iterable[str]) -> ScriptedResponse:
    items = "".join([f"<item><title>{escape(url)}</title><link>{escape(url)}</link></item>\n" for url in urls])
    body = (
        '<?xml version="1.0"?>\n<rss version="2.0"><channel><title>All pages</title>'
        f"<link>{escape(home)}</link><description>New pages</description>\n{items}</channel></rss>\n"
    )
    return reply(200, body.encode(), content_type="application/rss+xml")


def reply_atom(home: str, urls: Iterable[str]) -> ScriptedResponse:
    entries = "".join(
        [
            f'<entry><title>{escape(url)}</title><id>{escape(url)}</id><link href="{escape(url)}"/>'
            "<updated>2024-01-01T00:00:00Z</updated></entry>\n"
            for url in urls
        ]
    )
    body = (
        '<?xml version="1.0"?>\n<feed xmlns="http://www.w3.org/2005/Atom"><title>All pages</title>'
        f'<id>{escape(home)}</id><link rel="alternate" href="{escape(home)}"/>'
        f"<updated>2024-01-01T00:00:00Z</updated>\n{entries}</feed>\n"
    )
    return reply(200, body.encode(), content_type="application/atom+xml")
