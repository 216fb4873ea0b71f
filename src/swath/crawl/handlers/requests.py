"""Follow and Request: what a handler yields to have more pages fetched."""

import json as json_module
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import KW_ONLY, InitVar, dataclass, replace
from typing import Any, Final, cast
from urllib.parse import urlencode

from swath.crawl.handlers.errors import InvalidYield
from swath.crawl.http.outgoing import find_header_mistake

Target = Callable[..., Any] | str | None  # a handler or its name; None: chosen by the URL
Form = Mapping[str, Any] | Sequence[tuple[str, Any]]

MAX_BODY: Final = 100_000  # bytes of the body of a request
MAX_KEY: Final = 1_000  # bytes
JSON_TYPE: Final = "application/json"
FORM_TYPE: Final = "application/x-www-form-urlencoded"

_METHOD = re.compile(r"[A-Z][A-Z-]{0,19}")
_TUNNEL_METHODS = ("CONNECT", "TRACE")
_BODILESS = ("GET", "HEAD")


class ResolvedLinks(tuple[str, ...]):
    """URLs that are absolute and normalised, so that they need not be resolved again."""

    __slots__ = ()


@dataclass(frozen=True, slots=True)
class Follow:
    """Links to follow. `Page.follow` makes one from a selector. Scope, depth, robots.txt and traps hold for each."""

    urls: Sequence[str]
    """May be relative to the page."""
    to: Target = None
    """The handler of these pages, or its name. Without it, their URLs decide."""
    priority: int | None = None
    """From 0 to 7; the pages of a host with a higher number come first. Without it, `--priority-by` decides."""
    payload: Any = None
    """Any JSON value; the handler of the page finds it in `page.payload`."""

    def __post_init__(self) -> None:
        if isinstance(self.urls, str):  # a string is a sequence of its characters
            object.__setattr__(self, "urls", (self.urls,))


@dataclass(frozen=True, slots=True)
class Request:
    """One page to fetch. Unlike the pages of a `Follow`, it may be out of scope, and need not be a GET."""

    url: str
    """May be relative to the page."""
    _: KW_ONLY
    method: str = "GET"
    """A request other than GET may reach the server twice, for example after a crash."""
    headers: Mapping[str, str] | None = None
    """More headers. A redirect to another host drops them."""
    body: bytes | str | None = None
    """A str is sent as UTF-8. Give the Content-Type in `headers`, or use `json` or `form`."""
    payload: Any = None
    """Any JSON value; the handler of the page finds it in `page.payload`."""
    to: Target = None
    """The handler of the page, or its name. Without it, its URL decides."""
    key: str | None = None
    """What identifies the page in the crawl: a key is fetched once. The default is the URL, and for other methods than
    GET the method, the URL and a hash of the body."""
    priority: int | None = None
    """From 0 to 7; the pages of a host with a higher number come first. Without it, `--priority-by` decides."""
    any_host: bool = False
    """Fetch it although `--scope` excludes it. Everything else that holds for links holds for it, too."""
    json: InitVar[Any] = None
    """A value for the body, as JSON."""
    form: InitVar[Form | None] = None
    """The fields of a form for the body, in UTF-8. A list as value repeats the field."""

    def __post_init__(self, json: Any, form: Form | None) -> None:
        if (self.body is not None) + (json is not None) + (form is not None) > 1:
            raise InvalidYield("a request has one body: pass one of body, json and form")
        if json is not None:
            self._set_body(_encode_json(json), JSON_TYPE)
        elif form is not None:
            self._set_body(_encode_form(form), FORM_TYPE)
        elif isinstance(self.body, str):
            object.__setattr__(self, "body", _encode_text(self.body))

    def _set_body(self, body: bytes, media_type: str) -> None:
        object.__setattr__(self, "body", body)
        given: object = {} if self.headers is None else self.headers
        if isinstance(given, Mapping) and not any(f"{name}".lower() == "content-type" for name in given):
            object.__setattr__(self, "headers", {"Content-Type": media_type, **given})


def _encode_json(value: Any) -> bytes:
    try:
        return _encode_text(json_module.dumps(value, ensure_ascii=False, allow_nan=False, separators=(",", ":")))
    except (TypeError, ValueError, RecursionError) as error:
        raise InvalidYield(f"json={value!r:.80} cannot be written as JSON: {error}") from None


def _encode_form(fields: Form) -> bytes:
    try:
        return urlencode(fields, doseq=True).encode()
    except (TypeError, ValueError):
        raise InvalidYield(f"form={fields!r:.80}: pass a dict of names and values, or a list of pairs") from None


def _encode_text(text: str) -> bytes:
    try:
        return text.encode()
    except UnicodeEncodeError:
        raise InvalidYield("the body has text that is not valid Unicode: replace the surrogates in it") from None


def set_url(request: Request, url: str) -> Request:
    """Return a request with another URL. A page has many links, and `replace` takes more than twice as long."""
    return Request(
        url,
        method=request.method,
        headers=request.headers,
        body=request.body,
        payload=request.payload,
        to=request.to,
        key=request.key,
        priority=request.priority,
        any_host=request.any_host,
    )


def check_request(request: Request) -> Request:
    """Return a request that can be sent, with its method in capitals. Raise InvalidYield if it cannot be sent."""
    body, key, given = request.body, request.key, cast("object", request.method)
    if not isinstance(given, str) or not _METHOD.fullmatch(given.upper()) or given.upper() in _TUNNEL_METHODS:
        raise InvalidYield(f"method={given!r:.80}: pass a method of HTTP such as 'POST'")
    method = given.upper()
    if body is not None and not isinstance(body, bytes):
        raise InvalidYield(f"body={body!r:.80} is of type {type(body).__name__}: pass bytes, a str, json= or form=")
    if body and method in _BODILESS:
        raise InvalidYield(f"a {method} request has no body: pass method='POST', or put the fields into the URL")
    if body and len(body) > MAX_BODY:
        raise InvalidYield(f"the body of the request has {len(body):,} bytes, the limit is {MAX_BODY:,}")
    if request.headers is not None and (mistake := find_header_mistake(request.headers)) is not None:
        raise InvalidYield(mistake)
    if key is not None:
        _check_key(key)
    headers = dict(request.headers) if request.headers else None
    return replace(request, method=method, body=body or None, headers=headers)


def _check_key(key: object) -> None:
    if not isinstance(key, str) or not key or not key.isprintable():
        raise InvalidYield(f"key={key!r:.80}: pass a text of printable characters")
    if (size := len(key.encode(errors="replace"))) > MAX_KEY:
        raise InvalidYield(f"the key {key!r:.80} has {size:,} bytes, the limit is {MAX_KEY:,}: use a hash of it")
