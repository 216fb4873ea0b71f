"""HTML pages of ordinary hosts: their content, and how it becomes bytes."""

from collections.abc import Iterable
from dataclasses import dataclass
from html import escape

from swath.testing.web.content_coding import encode_deflate, encode_gzip
from swath.testing.web.filler_text import Language
from swath.testing.web.scripted_response import ScriptedResponse, format_head, reply

_CODINGS = {"gzip": encode_gzip, "deflate": encode_deflate}


@dataclass(frozen=True, slots=True)
class PageLink:
    """A link: the text of its `href`, and the URL that it leads to."""

    tag: str  # a, area, iframe, next, alternate, canonical or refresh
    href: str
    url: str


@dataclass(frozen=True, slots=True)
class PageLocale:
    """The language of a page, its charset, and where the charset is declared: header, meta or byte order mark."""

    language: Language
    charset: str
    codec: str
    declared_in: str


@dataclass(frozen=True, slots=True)
class DemoPage:
    """An HTML page of an ordinary host."""

    url: str
    title: str
    locale: PageLocale
    links: tuple[PageLink, ...]  # that a crawl follows, in document order
    base: str | None
    other_markup: tuple[str, ...]  # with links that a crawl does not follow
    paragraphs: tuple[str, ...]
    coding: str  # content coding, if the client accepts it; "chunked": no coding, chunked transfer

    @property
    def content_type(self) -> str:
        return f"text/html; charset={self.locale.charset}" if self.locale.declared_in == "header" else "text/html"

    def body(self) -> bytes:
        out = ["<!doctype html>\n<html lang=", self.locale.language.tag, ">\n<head>\n"]
        if self.locale.declared_in == "meta":
            out.append(f'<meta charset="{self.locale.charset}">\n')
        out.append(f"<title>{self.title}</title>\n")
        if self.base is not None:
            out.append(f'<base href="{self.base}">\n')
        inline = []
        for link in self.links:
            form = _HEAD_FORMS.get(link.tag)
            if form is None:
                inline.append(link)
            else:
                out.append(form.format(_escape_attribute(link.href)))
        out.append(f"</head>\n<body>\n<h1>{self.title}</h1>\n")
        out += self.other_markup
        count = len(self.paragraphs)
        for position, text in enumerate(self.paragraphs):
            out.append(f"<p>{text}")
            for link in inline[position::count]:
                out.append(_BODY_FORMS[link.tag].format(_escape_attribute(link.href), link.tag))
            out.append("</p>\n")
        out.append("</body>\n</html>\n")
        text = "".join(out)
        return b"\xef\xbb\xbf" + text.encode() if self.locale.declared_in == "bom" else text.encode(self.locale.codec)


_HEAD_FORMS = {
    "next": '<link rel="next" href="{}">\n',
    "alternate": '<link rel="alternate" hreflang="en" href="{}">\n',
    "canonical": '<link rel="canonical" href="{}">\n',
    "refresh": '<meta http-equiv="Refresh" content="600; url={}">\n',
}
_BODY_FORMS = {
    "a": ' <a href="{}">{}</a> ',
    "area": ' <map name="m"><area alt="" shape="default" href="{}"></map> ',
    "iframe": ' <iframe src="{}"></iframe> ',
}


def reply_encoded(body: bytes, content_type: str, accept_encoding: str, coding: str) -> ScriptedResponse:
    """Return the page in a content coding if the client accepts it, otherwise without one."""
    if coding in _CODINGS and coding in accept_encoding:
        packed = _CODINGS[coding](body)
        return reply(200, packed, content_type=content_type, headers=[("Content-Encoding", coding)])
    if coding == "chunked":
        fields = [("Content-Type", content_type), ("Transfer-Encoding", "chunked")]
        return ScriptedResponse(200, (format_head(200, fields) + encode_chunked(body, 4096),))
    return reply(200, body, content_type=content_type)


def encode_chunked(body: bytes, length: int) -> bytes:
    pieces = [body[start : start + length] for start in range(0, len(body), length)]
    return b"".join(b"%x\r\n%b\r\n" % (len(piece), piece) for piece in pieces) + b"0\r\n\r\n"


def render_html(title: str, hrefs: Iterable[str], *, in_head: str = "", in_body: str = "") -> bytes:
    """Return a small page in UTF-8 with these links."""
    links = "".join([f'<li><a href="{_escape_attribute(href)}">{escape(href)}</a>\n' for href in hrefs])
    return (
        f"<!doctype html>\n<html><head><title>{escape(title)}</title>{in_head}</head>\n"
        f"<body><h1>{escape(title)}</h1>\n{in_body}<ul>\n{links}</ul></body></html>\n"
    ).encode()


def reply_html(title: str, hrefs: Iterable[str], *, in_head: str = "", in_body: str = "") -> ScriptedResponse:
    return reply(200, render_html(title, hrefs, in_head=in_head, in_body=in_body))


def _escape_attribute(href: str) -> str:
    return escape(href) if "&" in href or '"' in href or "<" in href else href
