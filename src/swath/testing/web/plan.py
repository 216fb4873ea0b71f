"""The settings of a web, from which everything else in it follows."""

from dataclasses import dataclass, field
from itertools import accumulate

DOMAIN = "demo.test"  # one registrable domain, so that a crawl in scope `domain` covers the whole web
OUTSIDE_DOMAIN = "outside.example"  # linked to, never served
AGENT = "swath"  # the product token that the rules in robots.txt are judged for


@dataclass(frozen=True, kw_only=True)
class Plan:
    """What makes one web different from another."""

    seed: int = 1
    hosts: int = 20  # ordinary ones; each kind of trouble brings its own
    pages: int = 1000  # on the ordinary hosts together, not counting robots.txt and sitemaps
    trouble: bool | frozenset[str] = True  # all kinds, none, or those named
    sitemaps: bool = True  # whether ordinary hosts have them, and pages that only they name
    size: tuple[int, int] = (1_500, 40_000)  # bytes of a page, least and most
    links: tuple[int, int] = (6, 40)  # of a page, besides those that keep the web connected
    skew: float = 1.0  # 0: hosts of one size; 1: the second has half as many pages as the first, and so on
    patience: float = 1.0  # seconds that a slow answer takes; Retry-After is at least one all the same
    latency: float = 0.0  # seconds before each page of an ordinary host
    scheme: str = "http"
    huge: int = 12_000_000  # bytes of the body that is larger than anybody wants
    bomb_megabytes: int = 256  # what a small gzip body unpacks to
    trap_depth: int = 10_000  # steps after which even a trap ends
    sizes: tuple[int, ...] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        if self.hosts < 1 or self.pages < self.hosts:
            raise ValueError(f"{self.pages} pages on {self.hosts} hosts: every host needs a page, every web a host")
        if self.scheme not in ("http", "https"):
            raise ValueError(f"scheme {self.scheme!r}: a web is served over http or https")
        object.__setattr__(self, "sizes", _sizes(self.hosts, self.pages, self.skew))

    def url(self, host: str, target: str) -> str:
        """The absolute form, as the WHATWG standard writes it."""
        return f"{self.scheme}://{host}{target}"


def ordinary_name(number: int) -> str:
    return f"h{number:04d}.{DOMAIN}"


def trouble_name(kind: str) -> str:
    return f"{kind}.{DOMAIN}"


def _sizes(hosts: int, pages: int, skew: float) -> tuple[int, ...]:
    """Pages per host: one each, the rest in shares that fall with the host's number."""
    shares = list(accumulate((number + 1) ** -skew for number in range(hosts)))
    spare = pages - hosts
    ends = [round(spare * share / shares[-1]) for share in shares]
    return tuple(1 + end - begin for begin, end in zip([0, *ends], ends, strict=False))
