"""`swath crawl`: a polite crawl of one site or of a million hosts."""

import asyncio
from collections.abc import Callable, Sequence
from typing import Annotated

import typer

from swath.cli.command import check_optional_store, run_command
from swath.cli.parsers import parse_duration, parse_size
from swath.core.errors import MissingExtra
from swath.crawl.settings import DELAY_OF_ANY, DELAY_OF_SITE, CrawlSettings

MISSING = "crawling needs some more packages: pip install 'swath[crawl]'"
SCOPE, LIMITS, NETWORK, OUTPUT = "Scope", "Limits", "Network", "Output"


def crawl(
    urls: Annotated[
        list[str] | None,
        typer.Argument(metavar="[URL...]", show_default=False, help="Where to begin: URLs or host names"),
    ] = None,
    seeds: Annotated[
        str | None, typer.Option("--seeds", metavar="FILE", help="More seeds, one a line; - is standard input")
    ] = None,
    out: Annotated[
        str, typer.Option("--out", "-o", metavar="DIR", help="Where everything goes; the same again resumes")
    ] = "crawl",
    store: Annotated[
        str | None,
        typer.Option(
            "--store",
            envvar="SWATH_STORE",
            show_envvar=True,
            metavar="URL",
            show_default="frontier.db in DIR",
            help="The frontier; machines that share it share the crawl",
        ),
    ] = None,
    workers: Annotated[int, typer.Option("--workers", metavar="N", help="Pages in flight at once")] = 500,
    processes: Annotated[
        int, typer.Option("--processes", metavar="N", help="Processes, each with so many workers")
    ] = 1,
    delay: Annotated[
        float | None,
        typer.Option(
            "--delay",
            parser=parse_duration,
            metavar="TIME",
            show_default=f"{DELAY_OF_ANY:g}s for --scope any, else {DELAY_OF_SITE:g}s",
            help="Between requests to a host; more if the host asks for it, is slow or fails",
        ),
    ] = None,
    contact: Annotated[
        str | None,
        typer.Option(
            "--contact",
            envvar="SWATH_CONTACT",
            show_envvar=True,
            metavar="EMAIL_OR_URL",
            show_default=False,
            help="Whom owners of hosts can write to; sent with every request",
        ),
    ] = None,
    scope: Annotated[
        str,
        typer.Option(
            "--scope",
            metavar="page|prefix|host|domain|any",
            help="How far from the seeds links are followed",
            rich_help_panel=SCOPE,
        ),
    ] = "host",
    include: Annotated[
        list[str] | None,
        typer.Option("--include", metavar="RE", show_default=False, help="Only URLs that match", rich_help_panel=SCOPE),
    ] = None,
    exclude: Annotated[
        list[str] | None,
        typer.Option("--exclude", metavar="RE", show_default=False, help="No URLs that match", rich_help_panel=SCOPE),
    ] = None,
    exclude_hosts: Annotated[
        str | None,
        typer.Option(
            "--exclude-hosts",
            metavar="FILE",
            help="Not these hosts and those below them, one a line",
            rich_help_panel=SCOPE,
        ),
    ] = None,
    depth: Annotated[
        int | None,
        typer.Option(
            "--depth",
            metavar="N",
            show_default="any",
            help="At most so many links away from a seed",
            rich_help_panel=SCOPE,
        ),
    ] = None,
    max_pages: Annotated[
        int | None,
        typer.Option(
            "--max-pages",
            metavar="N",
            show_default="any",
            help="Stop after so many, plus what is in flight",
            rich_help_panel=SCOPE,
        ),
    ] = None,
    max_pages_per_host: Annotated[
        int | None,
        typer.Option(
            "--max-pages-per-host",
            metavar="N",
            show_default="any",
            help="No more of a host, exactly",
            rich_help_panel=SCOPE,
        ),
    ] = None,
    max_duration: Annotated[
        float | None,
        typer.Option(
            "--max-duration",
            parser=parse_duration,
            metavar="TIME",
            show_default="any",
            help="Stop after so long, such as 2h",
            rich_help_panel=SCOPE,
        ),
    ] = None,
    strip_tracking: Annotated[
        bool,
        typer.Option("--strip-tracking", help="Take utm_source and its like off links", rich_help_panel=SCOPE),
    ] = False,
    lane: Annotated[
        str,
        typer.Option(
            "--lane",
            metavar="host|domain|ip",
            help="What the delay is for: a host, all hosts of a registrable domain, or all of one address",
            rich_help_panel=LIMITS,
        ),
    ] = "host",
    timeout: Annotated[
        float,
        typer.Option(
            "--timeout",
            parser=parse_duration,
            metavar="TIME",
            show_default="30s",
            help="For a page",
            rich_help_panel=LIMITS,
        ),
    ] = 30.0,
    max_size: Annotated[
        int,
        typer.Option(
            "--max-size",
            parser=parse_size,
            metavar="SIZE",
            show_default="10MB",
            help="Of a page; more is cut off",
            rich_help_panel=LIMITS,
        ),
    ] = 10_000_000,
    max_redirects: Annotated[
        int,
        typer.Option(
            "--max-redirects", metavar="N", help="In a row; each is a page of its own host", rich_help_panel=LIMITS
        ),
    ] = 5,
    retries: Annotated[
        int,
        typer.Option(
            "--retries", metavar="N", help="Of a page that fails, after ever longer pauses", rich_help_panel=LIMITS
        ),
    ] = 3,
    max_workers_per_host: Annotated[
        int,
        typer.Option("--max-workers-per-host", metavar="N", help="Pages of a host at once", rich_help_panel=LIMITS),
    ] = 1,
    connect_to: Annotated[
        list[str] | None,
        typer.Option(
            "--connect-to",
            metavar="HOST:PORT:HOST:PORT",
            show_default=False,
            help="Connect elsewhere, as curl's",
            rich_help_panel=NETWORK,
        ),
    ] = None,
    allow_private: Annotated[
        bool,
        typer.Option("--allow-private", help="Also addresses that are not public", rich_help_panel=NETWORK),
    ] = False,
    proxy: Annotated[
        str | None,
        typer.Option(
            "--proxy",
            metavar="URL",
            show_default=False,
            help="Fetch through this proxy, which then resolves names",
            rich_help_panel=NETWORK,
        ),
    ] = None,
    user_agent: Annotated[
        str,
        typer.Option(
            "--user-agent", metavar="NAME", help="The name that robots.txt files address it by", rich_help_panel=NETWORK
        ),
    ] = "swath",
    robots: Annotated[
        bool, typer.Option("--robots/--no-robots", help="Obey robots.txt", rich_help_panel=NETWORK)
    ] = True,
    warc: Annotated[
        bool,
        typer.Option(
            "--warc/--no-warc",
            help="Keep pages in WARC files; without, they are only listed",
            rich_help_panel=OUTPUT,
        ),
    ] = True,
    warc_size: Annotated[
        int,
        typer.Option(
            "--warc-size",
            parser=parse_size,
            metavar="SIZE",
            show_default="1GB",
            help="Of a file; then the next begins",
            rich_help_panel=OUTPUT,
        ),
    ] = 1_000_000_000,
    sitemaps: Annotated[
        bool,
        typer.Option(
            "--sitemaps/--no-sitemaps",
            help="Read the sitemaps that robots.txt names",
            rich_help_panel=OUTPUT,
        ),
    ] = True,
    json: Annotated[
        bool,
        typer.Option("--json", help="Print progress and summary as JSON lines", rich_help_panel=OUTPUT),
    ] = False,
    quiet: Annotated[
        bool, typer.Option("--quiet", "-q", help="Only say what went wrong", rich_help_panel=OUTPUT)
    ] = False,
) -> None:
    """Crawl politely: robots.txt obeyed, every host left in peace between requests, everything archived as WARC.

    The same command with the same --out goes on where it stopped, after Ctrl-C as after a crash. Exits with 0 when
    everything was crawled, with 1 when pages were given up, none was fetched or a limit ended it, 130 after Ctrl-C.
    """
    settings = lambda: CrawlSettings(  # noqa: E731  made where its errors are told
        out=out, store=check_optional_store(store), workers=workers, processes=processes, delay=delay, contact=contact,
        user_agent=user_agent, lane=lane, scope=scope, include=tuple(include or ()), exclude=tuple(exclude or ()),
        exclude_hosts=exclude_hosts, depth=depth, max_pages=max_pages, max_pages_per_host=max_pages_per_host,
        max_duration=max_duration, strip_tracking=strip_tracking, timeout=timeout, max_size=max_size,
        max_redirects=max_redirects, retries=retries, max_workers_per_host=max_workers_per_host,
        connect_to=tuple(connect_to or ()), allow_private=allow_private, proxy=proxy, robots=robots, warc=warc,
        warc_size=warc_size, sitemaps=sitemaps,
    )  # fmt: skip
    run_command(store, _crawl(settings, urls or [], seeds, json=json, quiet=quiet), loop=_loop)


def _loop() -> asyncio.AbstractEventLoop:
    try:
        import uvloop
    except ImportError as error:
        raise MissingExtra(MISSING) from error
    return uvloop.new_event_loop()


async def _crawl(
    settings: Callable[[], CrawlSettings], urls: Sequence[str], seeds: str | None, *, json: bool, quiet: bool
) -> int:
    try:
        from swath.cli.crawling import Crawling
    except ImportError as error:
        raise MissingExtra(MISSING) from error
    return await Crawling(settings(), json=json, quiet=quiet).run(urls, seeds)
