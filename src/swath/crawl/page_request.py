"""The request of an item: what its payload says about the method, headers and body, and the key that identifies it.

The key of a page is its URL. A page that is fetched in another way than with a plain GET has its request in its
payload, and may have another key.
"""

from base64 import b64decode, b64encode
from collections.abc import Mapping
from hashlib import blake2b
from typing import Any, Final

from swath import Item
from swath.crawl.http.outgoing import OutgoingRequest
from swath.crawl.urls import normalise

REQUEST: Final = "request"  # in the payload of an item that is not a plain GET of its key

_URL, _METHOD, _HEADERS, _TEXT, _BASE64, _KEY = "url", "method", "headers", "body", "base64", "key"
_BODY_HEADERS: Final = frozenset(("content-type", "content-encoding", "content-language", "content-location"))
_UNREPEATED: Final = {301: ("POST",), 302: ("POST",)}  # a redirect with 303 changes every method to GET, except HEAD


def get_url(item: Item) -> str:
    """Return the URL of a page."""
    stored = (item.payload or {}).get(REQUEST)
    url: str = item.key if stored is None else stored[_URL]
    return url


def describe_identity(item: Item) -> dict[str, str]:
    """Return the fields that only some lines of the page list have: the method, and the key if it is not the URL."""
    stored = (item.payload or {}).get(REQUEST)
    if stored is None:
        return {}
    method = {_METHOD: stored[_METHOD]} if _METHOD in stored else {}
    return method if item.key == stored[_URL] else {**method, _KEY: item.key}


def read_request(item: Item) -> OutgoingRequest | None:
    """Return the request of a page; None for a plain GET."""
    stored = (item.payload or {}).get(REQUEST)
    if stored is None:
        return None
    body = b64decode(stored[_BASE64]) if _BASE64 in stored else stored.get(_TEXT, "").encode()
    return OutgoingRequest(stored[_URL], stored.get(_METHOD, "GET"), stored.get(_HEADERS, {}), body)


def store_request(
    url: str, *, method: str, headers: Mapping[str, str] | None, body: bytes | None, key: str | None
) -> tuple[str, dict[str, Any]]:
    """Return the key of a page, and what its payload says about its request: nothing for a plain GET."""
    stored: dict[str, Any] = {}
    if method != "GET":
        stored[_METHOD] = method
    if headers:
        stored[_HEADERS] = dict(headers)
    if body:
        try:
            stored[_TEXT] = body.decode()
        except UnicodeDecodeError:
            stored[_BASE64] = b64encode(body).decode()
    if key is not None:
        stored[_KEY] = key
    elif method == "GET":
        key = url
    else:
        digest = f" {blake2b(body, digest_size=16).hexdigest()}" if body else ""
        key = f"{method} {url}{digest}"
    return key, {REQUEST: {_URL: url, **stored}} if stored else {}


def redirect_request(item: Item, target: str, status: int) -> tuple[str, dict[str, Any]]:
    """Return the key of the page that a redirect leads to, and what its payload says about its request.

    As in browsers, POST becomes GET unless the status is 307 or 308. Headers of the user go to no other origin, except
    from http to https. With a key of the user's own, that of the target consists of this key and the URL.
    """
    request = read_request(item)
    if request is None:
        return target, {}
    method, headers, body = request.method, request.headers, request.body
    becomes_get = method not in ("GET", "HEAD") if status == 303 else method in _UNREPEATED.get(status, ())
    if not _is_same_site(request.url, target):
        headers = {name: value for name, value in headers.items() if name.lower() in _BODY_HEADERS}
    if becomes_get:
        method, body = "GET", b""
    if not body:
        headers = {name: value for name, value in headers.items() if name.lower() not in _BODY_HEADERS}
    own_key = item.payload[REQUEST].get(_KEY)
    key, stored = store_request(target, method=method, headers=headers, body=body, key=own_key)
    return key if own_key is None else f"{own_key} {target}", stored


def _is_same_site(url: str, target: str) -> bool:
    before, after = normalise.origin(url), normalise.origin(target)
    return before == after or f"https{before.removeprefix('http')}" == after
