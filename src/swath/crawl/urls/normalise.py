"""Normalise URLs, and return parts of normalised URLs.

`normalise` applies the WHATWG URL standard (with ada) and a few more steps that make no difference to a server. The
other functions take normalised URLs, so most of them only slice strings.
"""

import re
from collections.abc import Iterable
from difflib import get_close_matches
from functools import cache, lru_cache
from urllib.parse import quote_from_bytes, unquote_to_bytes

from ada_url import join_url, normalize_url
from publicsuffixlist import PublicSuffixList

MAX_URL = 2_048
MAX_TEXT = 4 * MAX_URL  # a link may shrink when it is normalised, but longer ones are not worth parsing
MAX_ORIGIN = 512
MAX_HOST = 253
MAX_LABEL = 63
ORIGINS_CACHED = 4_096
SITES_CACHED = 16_384

# Ports of other protocols. The Fetch standard blocks them, so a link cannot make a client send HTTP to a mail server.
_PORTS = (
    "0 1 7 9 11 13 15 17 19 20 21 22 23 25 37 42 43 53 69 77 79 87 95 101 102 103 104 109 110 111 113 115 117 119 123 "
    "135 137 139 143 161 179 389 427 465 512 513 514 515 526 530 531 532 540 548 554 556 563 587 601 636 989 990 993 "
    "995 1719 1720 1723 2049 3659 4045 4190 5060 5061 6000 6566 6665 6666 6667 6668 6669 6679 6697 10080"
)
BLOCKED_PORTS = frozenset(_PORTS.split())
_PORT = re.compile(r"(?:https?:)?/*[^/?#]*:0*(\d+)(?:[/?#]|$)", re.IGNORECASE)

_UNRESERVED = frozenset("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-._~")
_HEX = "0123456789abcdefABCDEF"
_TRIPLETS = {
    f"%{high}{low}": chr(int(high + low, 16)) if chr(int(high + low, 16)) in _UNRESERVED else f"%{high}{low}".upper()
    for high in _HEX
    for low in _HEX
}
# A triplet directly after a stray "%" stays unchanged: decoding it could complete another triplet, and the result would
# not be in normal form.
_TRIPLET = re.compile(r"(?<!%)(?<!%[0-9A-Fa-f])%[0-9A-Fa-f]{2}")
_ORIGIN = re.compile(r"(https?)://(?:[^/]*@)?(\[[0-9a-f:.]+\]|[^/:]+)(?::(\d+))?")
# Most links are in normal form already: absolute or root-relative, without special characters. They skip the parser.
_PLAIN = re.compile(
    r"(https?://[a-z0-9.-]++(?::[0-9]++)?)?+/(?!/)[A-Za-z0-9_~!$&()*+,;=:@/.-]*+(?:\?[A-Za-z0-9_~!$&()*+,;=:@/?.-]++)?+"
)
_ROOTED = re.compile(r"/(?!/)[A-Za-z0-9_~!$&()*+,;=:@/.-]*+(?:\?[A-Za-z0-9_~!$&()*+,;=:@/?.-]++)?+")
_SCHEME = re.compile(r"\s*(?:[A-Za-z][A-Za-z0-9+.-]*://|https?:(?!\d))", re.IGNORECASE)
_SCHEMES = ("https", "http")
_THIS_MACHINE = re.compile(r"(?:.+\.)?localhost|127\.[0-9.]+|\[::1\]")
_SEED_HOST = re.compile(r"[a-z0-9._-]+|\[[0-9a-f:.]+\]")
_ADDRESS = re.compile(r"[0-9.]+|\[.*\]")
_LOST_COLON = re.compile(r"[^/.:]+//")


def normalise_escapes(text: str) -> str:
    """Unescape letters, digits and `-._~`, and write the other escapes in uppercase."""
    return _TRIPLET.sub(lambda found: _TRIPLETS[found[0]], text)


def normalise(text: str, base: str | None = None) -> str | None:
    """Return the normal form of an http or https URL, relative to `base`; None if it is not a valid URL.

    In addition to the standard, the fragment, credentials and a trailing dot of the host are dropped, and unnecessary
    percent-encoding is removed. Hosts that cannot exist in DNS and ports of other protocols give None.
    """
    if len(text) > MAX_TEXT:
        return None
    plain = _PLAIN.fullmatch(text)
    if plain is not None and "/." not in text:
        start = plain[1] or (base and base[: base.find("/", 8)])
        if start and len(start) <= MAX_ORIGIN and _is_normal_origin(start):
            url = text if plain[1] else start + text
            return url if len(url) <= MAX_URL else None
    return normalise_with_ada(text, base)


def normalise_all(texts: Iterable[str], base: str) -> list[str | None]:
    """Normalise all links of one page. The origin of the page is checked once for all of them."""
    start = base[: base.find("/", 8)]
    if len(start) > MAX_ORIGIN or not _is_normal_origin(start):
        return [normalise(text, base) for text in texts]
    most = MAX_URL - len(start)
    rooted = _ROOTED.fullmatch
    return [
        start + text if len(text) <= most and rooted(text) and "/." not in text else normalise(text, base)
        for text in texts
    ]


def normalise_with_ada(text: str, base: str | None) -> str | None:
    """Normalise a link that is not in normal form already."""
    try:
        url = normalize_url(text) if base is None else join_url(base, text)
    except ValueError:
        return None
    if url[:4] != "http":
        return None
    end = url.find("/", 8)
    if not 0 < end <= MAX_ORIGIN:
        return None
    given = url[:end]
    origin = _clean_origin(given)
    if origin is None:
        return None
    if "#" in url:
        url = url[: url.index("#")]
    if origin is not given:
        url = origin + url[end:]
    if "%" in url:
        url = normalise_escapes(url)
    return url if len(url) <= MAX_URL else None


def parse_seed(text: str) -> str | None:
    """Parse a seed: `example.com` means `https://example.com/`, and `localhost:8000` means `http://localhost:8000/`.

    Return None if it is not a URL to crawl, has credentials, has a typo that would turn its scheme into a host, or has
    a host with characters that no registry allows, such as the comma of `1,example.com`.
    """
    text = text.strip().lstrip("\ufeff")
    if _SCHEME.match(text):
        url = normalise(text)
        return None if url is None or host(url) in _SCHEMES or not _SEED_HOST.fullmatch(host(url)) else url
    rest = text.lstrip("/")
    # Without this check, "mailto:someone@example.com" would be a host with credentials.
    if not rest or "@" in rest.partition("/")[0] or _LOST_COLON.match(rest):
        return None
    url = normalise(f"https://{rest}")
    if url is None or not _SEED_HOST.fullmatch(host(url)):
        return None
    return normalise(f"http://{rest}") if is_this_machine(host(url)) else url


def has_scheme(text: str) -> bool:
    """Return whether a text begins with a scheme, such as `https://`."""
    return _SCHEME.match(text.lstrip("\ufeff")) is not None


def is_this_machine(name: str) -> bool:
    """Return whether a host always means this machine, such as `localhost` or `127.0.0.1`."""
    return _THIS_MACHINE.fullmatch(name) is not None


def list_later_forms(url: str) -> list[str]:
    """Return the forms of a bare host name that are tried after this one: http, then `www.` with https and http."""
    forms = [url.replace("https:", "http:", 1)] if url.startswith("https:") else []
    name = host(url)
    if "." in name and not name.startswith("www.") and not _ADDRESS.fullmatch(name):
        forms += [f"{scheme}://www.{url.partition('://')[2]}" for scheme in _SCHEMES]
    return [form for text in forms if (form := normalise(text)) is not None]


def suggest_seed(text: str) -> str | None:
    """Return the URL that an invalid seed probably means, such as `https//example.com` or `htps://example.com`."""
    word, slashes, rest = text.partition("//")
    close = get_close_matches(word.rstrip(":;,. ").lower(), _SCHEMES, n=1)
    if not slashes or not close:
        return None
    return parse_seed(rest if _SCHEME.match(rest) else f"{close[0]}://{rest.strip()}")


def find_blocked_port(text: str) -> str | None:
    """Return the port of a URL if browsers refuse to connect to it, because another protocol uses it; else None."""
    found = _PORT.match(text.strip())
    return found[1] if found is not None and found[1] in BLOCKED_PORTS else None


def origin(url: str) -> str:
    """Return the scheme, host and port of a normalised URL. Each origin has one robots.txt."""
    return url[: url.find("/", 8)]


def authority(url: str) -> str:
    """Return the host of a normalised URL, with the port unless it is the default."""
    return url[url.find("/") + 2 : url.find("/", 8)]


def host(url: str) -> str:
    """Return the host of a normalised URL without the port. IPv6 addresses keep their brackets."""
    name = authority(url)
    if ":" in name and name[-1] != "]":
        name = name[: name.rindex(":")]
    return name


def site(url: str) -> str:
    """Return the registrable domain of a normalised URL by the public suffix list, or its host if it has none."""
    return site_of_host(host(url))


@lru_cache(maxsize=SITES_CACHED)
def site_of_host(name: str) -> str:
    """Return the registrable domain of a host, or the host if it is an address, a public suffix or a single label."""
    # By the standard, a host whose last label is a number is an IPv4 address.
    if name[:1] == "[" or name[name.rfind(".") + 1 :].isdecimal():
        return name
    return _load_public_suffix_list().privatesuffix(name) or name


@lru_cache(maxsize=ORIGINS_CACHED)
def _clean_origin(given: str) -> str | None:
    """Remove credentials and a trailing dot. Return the same object if there were none, and None if it is refused."""
    parts = _ORIGIN.fullmatch(given)
    if parts is None:
        return None
    scheme, name, port = parts.groups()
    if port in BLOCKED_PORTS:
        return None
    if name[0] != "[":
        name = name.removesuffix(".")
        if len(name) > MAX_HOST or any(not 0 < len(label) <= MAX_LABEL for label in name.split(".")):
            return None
    made = f"{scheme}://{name}" if port is None else f"{scheme}://{name}:{port}"
    return given if made == given else made


@lru_cache(maxsize=ORIGINS_CACHED)
def _is_normal_origin(start: str) -> bool:
    """Return whether scheme, host and port are in normal form."""
    return normalise_with_ada(start + "/", None) == start + "/"


@cache
def _load_public_suffix_list() -> PublicSuffixList:
    return PublicSuffixList()


_TRACKING = (
    "gclid gclsrc dclid gbraid wbraid gad_source fbclid msclkid yclid ysclid twclid ttclid igshid igsh mc_cid mc_eid "
    "_hsenc _hsmi hsctatracking mkt_tok oly_anon_id oly_enc_id vero_id wickedid s_cid _openstat _ga _gl epik li_fat_id "
    "rb_clickid srsltid pk_campaign pk_kwd mtm_campaign mtm_source mtm_medium mtm_keyword mtm_content"
)
TRACKING = frozenset(_TRACKING.split())


def strip_tracking(url: str) -> str:
    """Return the URL without parameters that only track visitors."""
    path, mark, query = url.partition("?")
    if not mark:
        return url
    kept = [pair for pair in query.split("&") if not _is_tracking(pair.partition("=")[0].lower())]
    return path + "?" + "&".join(kept) if any(kept) else path


def _is_tracking(name: str) -> bool:
    return name.startswith("utm_") or name in TRACKING


# Names that always mean a session, and names that do so only with a long random value.
_SESSION = re.compile(
    r"(?:;jsessionid=[^/?;&]*"
    r"|(?<=[?&;])(?:(?:jsessionid|phpsessid|aspsessionid[a-z]*|oscsid|zenid|cfid|cftoken)=[^&;]*"
    r"|s=[0-9a-f]{32}(?=[&;]|$)"
    r"|sid=[0-9a-f]{16,128}(?=[&;]|$)"
    r"|sess(?:ion)?_?(?:id)?=[0-9a-z]{20,128}(?=[&;]|$))(?:[&;]|$))",
    re.IGNORECASE,
)


def strip_session(url: str) -> str:
    """Return the URL without session ids in path parameters and query."""
    if "?" not in url and ";" not in url:
        return url
    if not _SESSION.search(url):
        return url
    stripped = _SESSION.sub("", url).rstrip("?&")
    # `..;jsessionid=1` becomes `..`, which has to be resolved.
    return normalise_with_ada(stripped, None) or stripped if "/." in stripped else stripped


MAX_UNQUOTES = 8
_SLASHES = re.compile("/{2,}")
_WWW = re.compile(r"^www\d*\.(?=.)")
_SURT_SAFE = "!\"$&'()*+,/:;<=>?@[\\]^`{|}"


def surt(url: str) -> str:
    """Return the CDXJ key of a normalised URL as the Wayback tools do: `com,example)/path?a=1&b=2`.

    The key ignores the scheme, `www`, session ids, letter case, repeated slashes and the order of parameters.
    """
    name = host(url)
    port = authority(url)[len(name) :]
    if name[:1] == "[":
        name = name[1:-1]
    else:
        name = ",".join(reversed(_WWW.sub("", name, count=1).split(".")))
    path, _, query = strip_session(url[url.find("/", 8) :]).partition("?")
    path = _SLASHES.sub("/", _unescape_for_surt(path).lower())
    if len(path) > 1:
        path = path.removesuffix("/")
    if not query:
        return f"{name}{port}){path}"
    return f"{name}{port}){path}?{'&'.join(sorted(_unescape_for_surt(query).lower().split('&')))}"


def _unescape_for_surt(text: str) -> str:
    """Unescape until nothing changes, then escape as little as possible."""
    if "%" not in text:
        return text
    octets = text.encode()
    for _ in range(MAX_UNQUOTES):
        plain = unquote_to_bytes(octets)
        if plain == octets:
            break
        octets = plain
    return quote_from_bytes(octets, safe=_SURT_SAFE)
