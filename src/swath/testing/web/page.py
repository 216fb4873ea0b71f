"""HTML pages: what is on them, and the bytes that say so."""

from collections.abc import Iterable
from dataclasses import dataclass
from html import escape

from swath.testing.web.answer import Answer, head, reply
from swath.testing.web.coding import deflated, gzipped
from swath.testing.web.prose import Language

_CODINGS = {"gzip": gzipped, "deflate": deflated}


@dataclass(frozen=True, slots=True)
class Link:
    """A link as a page writes it, and where it leads."""

    tag: str  # a, area, iframe, next, alternate, canonical or refresh
    href: str
    url: str


@dataclass(frozen=True, slots=True)
class Voice:
    """The language of a page, its charset, and where it says so: header, meta, or a byte order mark."""

    language: Language
    charset: str
    codec: str
    said_in: str


@dataclass(frozen=True, slots=True)
class Page:
    """An HTML page of an ordinary host."""

    url: str
    title: str
    voice: Voice
    links: tuple[Link, ...]  # those that a crawl follows, in the order of the page
    base: str | None
    asides: tuple[str, ...]  # markup with what a crawl does not follow
    paragraphs: tuple[str, ...]
    coding: str  # the content coding, if the client takes it; "chunked": none, and sent in chunks

    @property
    def content_type(self) -> str:
        return f"text/html; charset={self.voice.charset}" if self.voice.said_in == "header" else "text/html"

    def body(self) -> bytes:
        out = ["<!doctype html>\n<html lang=", self.voice.language.tag, ">\n<head>\n"]
        if self.voice.said_in == "meta":
            out.append(f'<meta charset="{self.voice.charset}">\n')
        out.append(f"<title>{self.title}</title>\n")
        if self.base is not None:
            out.append(f'<base href="{self.base}">\n')
        inline = []
        for link in self.links:
            form = _HEAD_FORMS.get(link.tag)
            if form is None:
                inline.append(link)
            else:
                out.append(form.format(_attribute(link.href)))
        out.append(f"</head>\n<body>\n<h1>{self.title}</h1>\n")
        out += self.asides
        count = len(self.paragraphs)
        for position, text in enumerate(self.paragraphs):
            out.append(f"<p>{text}")
            for link in inline[position::count]:
                out.append(_BODY_FORMS[link.tag].format(_attribute(link.href), link.tag))
            out.append("</p>\n")
        out.append("</body>\n</html>\n")
        text = "".join(out)
        return b"\xef\xbb\xbf" + text.encode() if self.voice.said_in == "bom" else text.encode(self.voice.codec)


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


def encoded(body: bytes, content_type: str, accept_encoding: str, coding: str) -> Answer:
    """The page in a content coding if the client takes that, else as it is."""
    if coding in _CODINGS and coding in accept_encoding:
        packed = _CODINGS[coding](body)
        return reply(200, packed, content_type=content_type, headers=[("Content-Encoding", coding)])
    if coding == "chunked":
        fields = [("Content-Type", content_type), ("Transfer-Encoding", "chunked")]
        return Answer(200, (head(200, fields) + chunked(body, 4096),))
    return reply(200, body, content_type=content_type)


def chunked(body: bytes, length: int) -> bytes:
    pieces = [body[start : start + length] for start in range(0, len(body), length)]
    return b"".join(b"%x\r\n%b\r\n" % (len(piece), piece) for piece in pieces) + b"0\r\n\r\n"


def simple_html(title: str, hrefs: Iterable[str], *, in_head: str = "", in_body: str = "") -> bytes:
    """A small page in UTF-8 that links to these."""
    links = "".join([f'<li><a href="{_attribute(href)}">{escape(href)}</a>\n' for href in hrefs])
    return (
        f"<!doctype html>\n<html><head><title>{escape(title)}</title>{in_head}</head>\n"
        f"<body><h1>{escape(title)}</h1>\n{in_body}<ul>\n{links}</ul></body></html>\n"
    ).encode()


def plain_page(title: str, hrefs: Iterable[str], *, in_head: str = "", in_body: str = "") -> Answer:
    return reply(200, simple_html(title, hrefs, in_head=in_head, in_body=in_body))


def _attribute(href: str) -> str:
    return escape(href) if "&" in href or '"' in href or "<" in href else href
