"""CrawlSettings: everything a user can configure about a crawl.

A field is written once, with its help text, its limits and whether it is saved. The options of `swath crawl`
(`swath.cli.crawl`), the checks below and `crawl.json` (`settings_file.py`) follow from that.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, fields
from ipaddress import IPv4Address, IPv6Address
from pathlib import Path
from typing import Any, Final, Literal
from urllib.parse import quote, urlsplit

import swath
from swath import InvalidSetting
from swath.logs.settings import FILE_HELP, FORMAT_HELP, FORMATS, LEVEL_HELP, LEVELS, LogSettings

ANY_SCOPE_DELAY = 70.0  # default seconds between requests to a host, with --scope any
DEFAULT_DELAY = 1.0  # and with every other scope
MIN_LEASE = 60.0  # the default lease: this, or LEASE_TIMEOUTS times the timeout if that is longer
LEASE_TIMEOUTS = 3
MAX_HOSTS_WITHOUT_CONTACT = 10

LANES = ("host", "domain", "ip")
PRIORITIES = ("none", "depth")
ITEM_FORMATS = (".jsonl", ".csv", ".parquet")
PROXIES = ("http", "https", "socks4a", "socks5h")  # libcurl's schemes that let the proxy resolve host names

SCOPE, LIMITS, NETWORK, OUTPUT, LOG = "Scope", "Limits", "Network", "Output", "Log"

_REACHABLE = re.compile(r"[^\s@]@[^\s@]|https?://[^\s/]")
_DNS_SERVER = re.compile(r"(?:\[(?P<ipv6>[0-9A-Fa-f:.]+)\]|(?P<ipv4>[0-9.]+))(?::(?P<port>[0-9]{1,5}))?", re.ASCII)
_HIGHEST_PORT = 65_535


@dataclass(frozen=True, slots=True)
class SettingInfo:
    """What the command line, the checks and the settings file need to know about a field."""

    help: str
    metavar: str | None = None
    panel: str | None = None
    unit: Literal["duration", "size"] | None = None
    minimum: float | None = None
    default_text: str | None = None  # for `--help`, if the default is None or computed
    envvar: str | None = None
    short_flag: str | None = None
    saved: bool = True  # False: may differ from run to run, so it is not compared on resume


def _setting(default: Any, help: str, **info: Any) -> Any:
    return field(default=default, metadata={"setting": SettingInfo(help, **info)})


@dataclass(frozen=True, slots=True, kw_only=True)
class CrawlSettings:
    """The settings of one crawl. A field without help text is not a command-line option."""

    out: str = _setting(
        "crawl", "Directory for all output; use it again to resume", metavar="DIR", short_flag="-o", saved=False
    )
    store: str | None = _setting(
        None,
        "Frontier; machines that use the same one share the crawl",
        metavar="URL",
        envvar="SWATH_STORE",
        default_text="frontier.db in DIR",
        saved=False,
    )
    workers: int = _setting(500, "Maximum pages in flight, per process", metavar="N", minimum=1, saved=False)
    processes: int = _setting(1, "Number of processes", metavar="N", minimum=1, saved=False)
    delay: float | None = _setting(
        None,
        "Minimum time between requests to a host; longer if the host asks for it, is slow or fails",
        metavar="TIME",
        unit="duration",
        minimum=0,
        default_text=f"{ANY_SCOPE_DELAY:g}s for --scope any, else {DEFAULT_DELAY:g}s",
    )
    contact: str | None = _setting(
        None,
        "Contact address, sent in the User-Agent of every request",
        metavar="EMAIL_OR_URL",
        envvar="SWATH_CONTACT",
    )

    scope: str = _setting(
        "host", "How far from the seeds to follow links", metavar="page|prefix|host|domain|any", panel=SCOPE
    )
    include: tuple[str, ...] = _setting(
        (), "Crawl only URLs that match this regular expression", metavar="RE", panel=SCOPE
    )
    exclude: tuple[str, ...] = _setting((), "Skip URLs that match this regular expression", metavar="RE", panel=SCOPE)
    exclude_hosts: str | None = _setting(
        None, "File of hosts to skip, one per line; includes their subdomains", metavar="FILE", panel=SCOPE
    )
    depth: int | None = _setting(
        None, "Maximum number of links from a seed", metavar="N", panel=SCOPE, minimum=0, default_text="no limit"
    )
    max_pages: int | None = _setting(
        None,
        "Stop after this many pages, plus those in flight",
        metavar="N",
        panel=SCOPE,
        minimum=1,
        default_text="no limit",
        saved=False,
    )
    max_pages_per_host: int | None = _setting(
        None, "Maximum pages per host (exact)", metavar="N", panel=SCOPE, minimum=1, default_text="no limit"
    )
    max_duration: float | None = _setting(
        None,
        "Stop after this time, such as 2h",
        metavar="TIME",
        panel=SCOPE,
        unit="duration",
        minimum=0,
        default_text="no limit",
        saved=False,
    )
    strip_tracking: bool = _setting(False, "Remove tracking parameters such as utm_source from links", panel=SCOPE)
    priority_by: str = _setting(
        "none",
        "What decides which pages come first; depth: those with fewer links from a seed, in eight levels",
        metavar="none|depth",
        panel=SCOPE,
    )

    lane: str = _setting(
        "host",
        "What the delay applies to: each host, each registrable domain or each IP address",
        metavar="host|domain|ip",
        panel=LIMITS,
    )
    timeout: float = _setting(
        30.0, "Maximum time for a page", metavar="TIME", panel=LIMITS, unit="duration", minimum=0.1
    )
    max_size: int = _setting(
        10_000_000, "Maximum size of a page; the rest is truncated", metavar="SIZE", panel=LIMITS, unit="size",
        minimum=1_000,
    )  # fmt: skip
    max_redirects: int = _setting(5, "Maximum consecutive redirects", metavar="N", panel=LIMITS, minimum=0)
    retries: int = _setting(
        3, "Maximum retries of a page, with increasing pauses", metavar="N", panel=LIMITS, minimum=0
    )
    retry_failed: bool = _setting(False, "Try the pages again that failed in earlier runs", panel=LIMITS, saved=False)
    max_workers_per_host: int = _setting(
        1, "Maximum pages of a host in flight; 0 for no limit", metavar="N", panel=LIMITS, minimum=0
    )
    lease: float | None = _setting(
        None,
        "Time until other processes take over the pages of a process that died",
        metavar="TIME",
        panel=LIMITS,
        unit="duration",
        minimum=1,
        default_text=f"{LEASE_TIMEOUTS} times --timeout, at least {MIN_LEASE:g}s",
        saved=False,
    )

    connect_to: tuple[str, ...] = _setting(
        (),
        "Connect to another address, like curl --connect-to",
        metavar="HOST:PORT:HOST:PORT",
        panel=NETWORK,
        saved=False,
    )
    dns_servers: tuple[str, ...] = _setting(
        (),
        "Name server to use instead of those of the system; IPv6 in brackets",
        metavar="ADDRESS[:PORT]",
        panel=NETWORK,
        saved=False,
    )
    allow_private: bool = _setting(False, "Allow addresses that are not public, such as 127.0.0.1", panel=NETWORK)
    proxy: str | None = _setting(
        None, "Proxy for all requests; it also resolves host names", metavar="URL", panel=NETWORK, saved=False
    )
    user_agent: str = _setting(
        "swath", "Name in the User-Agent header, which robots.txt rules refer to", metavar="NAME", panel=NETWORK
    )
    user_agent_string: str | None = _setting(
        None,
        "User-Agent header as a whole; robots.txt rules still refer to --user-agent",
        metavar="TEXT",
        panel=NETWORK,
        default_text="from --user-agent and --contact",
    )
    robots: bool = _setting(True, "Obey robots.txt", panel=NETWORK)
    sitemaps: bool = _setting(True, "Read the sitemaps that robots.txt and sitemap indexes list", panel=NETWORK)
    verify: bool = False
    ca_file: str | None = None

    run: str | None = _setting(
        None,
        "Crawler, or function for every page, that takes items out of pages and follows links",
        metavar="MODULE:NAME",
        panel=OUTPUT,
        saved=False,
    )
    select: tuple[str, ...] = _setting(
        (),
        "Field of an item: the text of the first element that matches, or an attribute; can be repeated",
        metavar="NAME=CSS[@ATTRIBUTE]",
        panel=OUTPUT,
    )
    items: str | None = _setting(
        None,
        "File for the items of --run or --select, written at the end of the run: .jsonl, .csv or .parquet",
        metavar="FILE",
        panel=OUTPUT,
        saved=False,
    )
    same_code: bool = _setting(
        False, "Refuse to run if the code of --run is not that of earlier runs and other machines", panel=OUTPUT,
        saved=False,
    )  # fmt: skip
    warc: bool = _setting(True, "Write WARC files in addition to the list of pages", panel=OUTPUT)
    warc_size: int = _setting(
        1_000_000_000, "Size at which the next WARC file begins", metavar="SIZE", panel=OUTPUT, unit="size",
        minimum=1_000_000,
    )  # fmt: skip

    log_file: str | None = _setting(None, FILE_HELP, metavar="FILE", panel=LOG, saved=False)
    log_level: str | None = _setting(
        None, LEVEL_HELP, metavar="|".join(LEVELS), panel=LOG, default_text="info", saved=False
    )
    log_format: str | None = _setting(
        None, FORMAT_HELP, metavar="|".join(FORMATS), panel=LOG, default_text="text", saved=False
    )

    def __post_init__(self) -> None:
        LogSettings(self.log_file, self.log_level, self.log_format)  # raises InvalidSetting
        for name, info in SETTINGS.items():
            value = getattr(self, name)
            if info.minimum is not None and value is not None and value < info.minimum:
                raise InvalidSetting(f"{format_flag(name)} {value}: must be at least {info.minimum}")
        if self.lane not in LANES:
            raise InvalidSetting(f"--lane {self.lane}: must be one of {', '.join(LANES)}")
        if self.lane == "ip" and self.proxy is not None:
            raise InvalidSetting(
                "--lane ip needs the addresses of hosts, which --proxy does not reveal: remove one of the two"
            )
        if not self.user_agent.isascii() or not self.user_agent.replace("-", "").replace("_", "").isalnum():
            raise InvalidSetting(
                f"--user-agent {self.user_agent!r}: must be a name of letters, digits, - and _, as in robots.txt. "
                "swath appends its version and --contact"
            )
        if self.priority_by not in PRIORITIES:
            raise InvalidSetting(f"--priority-by {self.priority_by}: must be one of {', '.join(PRIORITIES)}")
        if self.user_agent_string is not None and not _is_header_value(self.user_agent_string):
            raise InvalidSetting(
                f"--user-agent-string {self.user_agent_string!r}: must be printable ASCII without spaces around it, as "
                "in an HTTP header"
            )
        if self.contact is not None and not _is_contact(self.contact):
            raise InvalidSetting(
                f"--contact {self.contact!r}: must be an e-mail address or a URL in ASCII, such as crawl@example.org "
                "or https://example.org/crawl"
            )
        if self.proxy is not None and not is_proxy(self.proxy):
            raise InvalidSetting(
                f"--proxy {self.proxy.rpartition('@')[2]!r}: must be a URL such as http://proxy.example:3128, with one "
                f"of the schemes {', '.join(PROXIES)}"
            )
        for server in self.dns_servers:
            if not _is_dns_server(server):
                raise InvalidSetting(
                    f"--dns-servers {server!r}: must be an IP address, such as 192.0.2.53, 192.0.2.53:5353 or "
                    "[2001:db8::53]:53. Repeat the option for each server"
                )
        if self.select and self.run is not None:
            raise InvalidSetting("--select and --run exclude each other: select in the handler instead")
        if self.items is not None and self.run is None and not self.select:
            raise InvalidSetting(f"--items {self.items}: only a crawl with --run or --select has items")
        if self.items is not None:
            check_item_file(self.items)
        if self.dns_servers and self.proxy is not None:
            raise InvalidSetting("--dns-servers has no effect with --proxy, which resolves host names: remove one")

    @property
    def directory(self) -> Path:
        return Path(self.out)

    @property
    def store_url(self) -> str:
        return self.store or f"sqlite:///{quote(str(self.directory / 'frontier.db'), errors='surrogateescape')}"

    @property
    def log(self) -> LogSettings:
        return LogSettings(self.log_file, self.log_level, self.log_format)

    @property
    def min_interval(self) -> float:
        """Seconds between two requests to a host, unless the host asks for more."""
        if self.delay is not None:
            return self.delay
        return ANY_SCOPE_DELAY if self.scope == "any" else DEFAULT_DELAY

    @property
    def lease_seconds(self) -> float:
        return max(MIN_LEASE, LEASE_TIMEOUTS * self.timeout) if self.lease is None else self.lease

    @property
    def agent(self) -> str:
        """The User-Agent header."""
        if self.user_agent_string is not None:
            return self.user_agent_string
        return f"{self.user_agent}/{swath.__version__}" + (f" (+{self.contact})" if self.contact else "")

    def get_saved_values(self) -> dict[str, Any]:
        """Return the settings that must stay the same when the crawl is resumed."""
        return {name: value for name, value in asdict(self).items() if name not in SETTINGS or SETTINGS[name].saved}


SETTINGS: Final[Mapping[str, SettingInfo]] = {
    one.name: one.metadata["setting"] for one in fields(CrawlSettings) if "setting" in one.metadata
}


def check_item_file(name: str) -> None:
    """Raise InvalidSetting if the name of a file does not say in which format to write items."""
    if Path(name).suffix not in ITEM_FORMATS:
        raise InvalidSetting(f"--items {name}: the name must end in {', '.join(ITEM_FORMATS)}")


def format_flag(name: str) -> str:
    return f"--{name.replace('_', '-')}"


def list_warnings(settings: CrawlSettings) -> Sequence[str]:
    """Return what the owners of hosts should be able to see in the User-Agent header, and cannot."""
    text, contact = settings.user_agent_string, settings.contact
    if text is None:
        return []
    if contact is not None and contact not in text:
        return [f"--user-agent-string does not contain the --contact {contact}, so hosts do not see it"]
    if settings.user_agent.lower() not in text.lower() and not _REACHABLE.search(text):
        name = f"{settings.user_agent}, the name in robots.txt rules"
        return [f"--user-agent-string has neither {name}, nor a contact: the owners of hosts cannot tell who crawls"]
    return []


def _is_header_value(text: str) -> bool:
    return bool(text) and text.isascii() and text.isprintable() and text == text.strip()


def _is_contact(text: str) -> bool:
    return text.isascii() and text.isprintable() and _REACHABLE.search(text) is not None


def is_proxy(text: str) -> bool:
    """Return whether libcurl accepts a proxy: a URL, or a host and its port."""
    try:
        parts = urlsplit(text if "://" in text else f"http://{text}")
        named = parts.scheme in PROXIES and parts.hostname and parts.port != 0
    except ValueError:  # invalid brackets or port
        return False
    rest = parts.path.strip("/") + parts.query + parts.fragment
    return bool(named) and not rest and text.isprintable() and " " not in text


def _is_dns_server(text: str) -> bool:
    """Return whether c-ares accepts a name server: an IP address, with an optional port."""
    found = _DNS_SERVER.fullmatch(text)
    if found is None or not 0 < int(found["port"] or 53) <= _HIGHEST_PORT:
        return False
    try:
        IPv4Address(found["ipv4"]) if found["ipv4"] else IPv6Address(found["ipv6"])
    except ValueError:
        return False
    return True
