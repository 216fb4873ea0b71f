"""The settings of a web. Everything else in it is computed from them."""

from dataclasses import dataclass, field
from itertools import accumulate

DOMAIN = "demo.test"  # one registrable domain, so a crawl of scope `domain` covers the whole web
OUTSIDE_DOMAIN = "outside.example"  # linked to, never served
AGENT = "swath"  # the product token that the expectations about robots.txt assume


@dataclass(frozen=True, kw_only=True)
class Plan:
    """The settings of a web."""

    seed: int = 1
    hosts: int = 20  # ordinary hosts; each kind of fault has its own hosts
    pages: int = 1000  # in total on the ordinary hosts, without robots.txt and sitemaps
    faults: bool | frozenset[str] = True  # all kinds, none, or the named kinds
    sitemaps: bool = True  # give ordinary hosts sitemaps, and pages that only a sitemap lists
    size: tuple[int, int] = (1_500, 40_000)  # bytes of a page: minimum and maximum
    links: tuple[int, int] = (6, 40)  # of a page: minimum and maximum, without those that connect the tree
    skew: float = 1.0  # 0: all hosts have the same size; 1: host n has 1/n of the pages of the first
    slow_seconds: float = 1.0  # duration of a slow response; Retry-After is at least 1 s
    latency_seconds: float = 0.0  # delay before each page of an ordinary host
    scheme: str = "http"
    huge_bytes: int = 12_000_000  # size of the body that exceeds every limit
    bomb_megabytes: int = 256  # decompressed size of the gzip bomb
    trap_depth: int = 10_000  # number of pages of a trap
    shops: int = 0  # hosts with listings and details of books; see `shop.py`
    books: int = 100  # of each shop
    sizes: tuple[int, ...] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        if self.hosts < 1 or self.pages < self.hosts:
            raise ValueError(
                f"pages={self.pages}, hosts={self.hosts}: a web needs at least one host and one page per host"
            )
        if self.scheme not in ("http", "https"):
            raise ValueError(f"scheme={self.scheme!r} is not valid; use http or https")
        object.__setattr__(self, "sizes", _compute_sizes(self.hosts, self.pages, self.skew))

    def url(self, host: str, target: str) -> str:
        """Return the absolute URL in the normal form of the WHATWG standard."""
        return f"{self.scheme}://{host}{target}"


def ordinary_host(number: int) -> str:
    return f"h{number:04d}.{DOMAIN}"


def fault_host(kind: str) -> str:
    return f"{kind}.{DOMAIN}"


def _compute_sizes(hosts: int, pages: int, skew: float) -> tuple[int, ...]:
    """Return the pages per host: one each, and a share of the rest that falls with the number of the host."""
    shares = list(accumulate((number + 1) ** -skew for number in range(hosts)))
    spare = pages - hosts
    ends = [round(spare * share / shares[-1]) for share in shares]
    return tuple(1 + end - begin for begin, end in zip([0, *ends], ends, strict=False))
