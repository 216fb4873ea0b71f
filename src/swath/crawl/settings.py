"""Settings: everything a crawl can be told, checked, kept beside its output and compared when it is resumed."""

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import Any, Final
from urllib.parse import quote, urlsplit

import swath
from swath.core.errors import InvalidSetting

FILE = "crawl.json"

DELAY_OF_ANY = 70.0  # seconds between requests to a host, where the crawl goes wherever links lead
DELAY_OF_SITE = 1.0  # and where it stays on the sites that it was given
MANY_HOSTS = 10  # seeds on more hosts than this, or a crawl of `any`, want somebody to complain to

LANES = ("host", "domain", "ip")
PROXIES = ("http", "https", "socks4a", "socks5h")  # those of libcurl's that resolve names

_REACHABLE = re.compile(r"[^\s@]@[^\s@]|https?://[^\s/]")

# What one run may have otherwise than the one before it without the crawl being another crawl.
PASSING: Final = frozenset({"workers", "processes", "max_pages", "max_duration", "out", "store", "proxy", "connect_to"})


@dataclass(frozen=True, slots=True, kw_only=True)
class CrawlSettings:
    """One crawl. What is None follows from the rest."""

    out: str
    store: str | None = None
    workers: int = 500
    processes: int = 1
    delay: float | None = None
    contact: str | None = None
    user_agent: str = "swath"
    lane: str = "host"

    scope: str = "host"
    include: tuple[str, ...] = ()
    exclude: tuple[str, ...] = ()
    exclude_hosts: str | None = None
    depth: int | None = None
    max_pages: int | None = None
    max_pages_per_host: int | None = None
    max_duration: float | None = None
    strip_tracking: bool = False

    timeout: float = 30.0
    max_size: int = 10_000_000
    max_redirects: int = 5
    retries: int = 3
    max_workers_per_host: int = 1

    connect_to: tuple[str, ...] = ()
    allow_private: bool = False
    proxy: str | None = None
    verify: bool = False
    ca_file: str | None = None

    robots: bool = True
    warc: bool = True
    warc_size: int = 1_000_000_000
    sitemaps: bool = True

    def __post_init__(self) -> None:
        for name, least in _LEAST.items():
            value = getattr(self, name)
            if value is not None and value < least:
                raise InvalidSetting(f"{_flag(name)} {value}: at least {least}")
        if self.lane not in LANES:
            raise InvalidSetting(f"--lane {self.lane}: one of {', '.join(LANES)}")
        if self.lane == "ip" and self.proxy is not None:
            raise InvalidSetting("--lane ip goes by the addresses of hosts, which --proxy keeps to itself: give one")
        if not self.user_agent.isascii() or not self.user_agent.replace("-", "").replace("_", "").isalnum():
            raise InvalidSetting(
                f"--user-agent {self.user_agent!r}: a name of letters, digits, - and _, as in robots.txt. "
                "The version and --contact are put behind it"
            )
        if self.contact is not None and not _is_contact(self.contact):
            raise InvalidSetting(
                f"--contact {self.contact!r}: an e-mail address or a URL in plain ASCII, such as crawl@example.org or "
                "https://example.org/crawl"
            )
        if self.proxy is not None and not _is_proxy(self.proxy):
            raise InvalidSetting(
                f"--proxy {self.proxy.rpartition('@')[2]!r}: a URL such as http://proxy.example:3128, by one of "
                f"{', '.join(PROXIES)}"
            )

    @property
    def directory(self) -> Path:
        return Path(self.out)

    @property
    def store_url(self) -> str:
        return self.store or f"sqlite:///{quote(str(self.directory / 'frontier.db'), errors='surrogateescape')}"

    @property
    def min_interval(self) -> float:
        """Seconds between two requests to a host, unless it asks for more."""
        if self.delay is not None:
            return self.delay
        return DELAY_OF_ANY if self.scope == "any" else DELAY_OF_SITE

    @property
    def agent(self) -> str:
        """The User-Agent header: who comes, and whom to write to."""
        return f"{self.user_agent}/{swath.__version__}" + (f" (+{self.contact})" if self.contact else "")

    # kept beside the output

    def saved(self) -> dict[str, Any]:
        return {name: value for name, value in asdict(self).items() if name not in PASSING}

    def save(self) -> None:
        text = json.dumps(self.saved(), indent=2) + "\n"
        path = self.directory / FILE
        made = path.with_suffix(".new")
        made.write_text(text)
        made.replace(path)

    def changes(self) -> Sequence[str]:
        """What differs from the run before, a line each; nothing for a first run."""
        try:
            before = json.loads((self.directory / FILE).read_text())
        except FileNotFoundError:
            return []
        except ValueError as error:
            raise InvalidSetting(f"{self.directory / FILE} is damaged ({error}): remove it to go on") from error
        return list(_differences(before, self.saved()))


_LEAST: Final = {
    "workers": 1,
    "processes": 1,
    "delay": 0,
    "depth": 0,
    "max_pages": 1,
    "max_pages_per_host": 1,
    "max_duration": 0,
    "timeout": 0.1,
    "max_size": 1_000,
    "max_redirects": 0,
    "retries": 0,
    "max_workers_per_host": 0,  # for any number
    "warc_size": 1_000_000,
}


def _is_contact(text: str) -> bool:
    return text.isascii() and text.isprintable() and _REACHABLE.search(text) is not None


def _is_proxy(text: str) -> bool:
    """Whether libcurl can take it for a proxy: a URL, or a host and its port."""
    try:
        parts = urlsplit(text if "://" in text else f"http://{text}")
        named = parts.scheme in PROXIES and parts.hostname and parts.port != 0
    except ValueError:  # of brackets and ports
        return False
    more = parts.path.strip("/") + parts.query + parts.fragment
    return bool(named) and not more and text.isprintable() and " " not in text


def _differences(before: Mapping[str, Any], now: Mapping[str, Any]) -> Sequence[str]:
    plain = json.loads(json.dumps(now))
    return [
        f"{_flag(name)} was {_shown(before.get(name))} and is {_shown(plain.get(name))} now"
        for name in plain
        if before.get(name, _DEFAULTS[name]) != plain[name]
    ]


def _flag(name: str) -> str:
    return f"--{name.replace('_', '-')}"


def _shown(value: Any) -> str:
    return "not given" if value in (None, [], ()) else json.dumps(value)


_DEFAULTS: Final = {
    field.name: json.loads(json.dumps(field.default)) for field in fields(CrawlSettings) if field.name != "out"
}
