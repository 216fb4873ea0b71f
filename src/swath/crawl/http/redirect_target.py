"""Find the target of a redirect."""

from swath.crawl.http.response import Response
from swath.crawl.urls.normalise import normalise

REDIRECTS = frozenset({301, 302, 303, 307, 308})


def find_redirect_target(response: Response) -> str | None:
    """Return the normalised target of a redirect; None if there is none or it is not a valid URL."""
    if response.status not in REDIRECTS:
        return None
    location = response.headers.get("location")
    return None if location is None else normalise(_decode_utf8(location), response.url)


def _decode_utf8(value: str) -> str:
    """Decode a header value as UTF-8, which many servers send, if it is valid. It was decoded as Latin-1 before."""
    try:
        return value.encode("latin-1").decode()
    except UnicodeError:
        return value
