"""`swath shell`: fetch one page, and try selectors and handlers on it."""

from typing import Annotated, Any

import typer

from swath import MissingExtra
from swath.cli.command import check_optional_store


def shell(
    url: Annotated[str, typer.Argument(metavar="URL", help="URL or host name")],
    run: Annotated[
        str | None, typer.Option("--run", metavar="MODULE:NAME", help="Crawler whose handlers to try on the page")
    ] = None,
    out: Annotated[
        str | None,
        typer.Option(
            "--out", "-o", metavar="DIR", help="Take the page from the archive of this crawl, without a network"
        ),
    ] = None,
    store: Annotated[
        str | None,
        typer.Option("--store", metavar="STORE", show_default="that of the crawl in DIR", help="Frontier of the crawl"),
    ] = None,
    allow_private: Annotated[
        bool, typer.Option("--allow-private", help="Allow addresses that are not public, such as 127.0.0.1")
    ] = False,
    contact: Annotated[
        str | None,
        typer.Option(
            "--contact",
            envvar="SWATH_CONTACT",
            show_envvar=True,
            metavar="EMAIL_OR_URL",
            help="Contact address, sent in the User-Agent of every request",
        ),
    ] = None,
    user_agent: Annotated[
        str | None,
        typer.Option(
            "--user-agent",
            metavar="NAME",
            show_default="swath",
            help="Name in the User-Agent header, which robots.txt rules refer to",
        ),
    ] = None,
    proxy: Annotated[str | None, typer.Option("--proxy", metavar="URL", help="Proxy for all requests")] = None,
    connect_to: Annotated[
        list[str] | None,
        typer.Option("--connect-to", metavar="HOST:PORT:HOST:PORT", help="Connect to another address, like curl"),
    ] = None,
) -> None:
    """Fetch one page, and open a Python prompt with it: to find the selectors of a handler.

    The page is fetched as in a crawl: robots.txt and the guard of private addresses apply. At the prompt, `page` is the
    page and `fetch(url)` fetches another one. With --run, `crawler.check(page)` returns what its handler yields.
    Uses IPython if it is installed. If standard input is not a terminal, it is a script to run.

    Exits with 1 if the page cannot be fetched or the script fails.

    Examples:
        swath shell https://books.example/
        swath shell https://books.example/catalogue/sapiens_1/ --run books:crawler
        swath shell https://books.example/ --out crawl < selectors.py
    """  # fmt: skip
    try:
        from swath.cli.shell_command import ShellCommand
    except ImportError as error:
        raise MissingExtra("`swath shell` needs more packages: pip install 'swath[crawl]'") from error
    given: dict[str, Any] = {
        "allow_private": allow_private or None, "contact": contact, "user_agent": user_agent, "proxy": proxy,
        "connect_to": tuple(connect_to or ()) or None,
    }  # fmt: skip
    chosen = {name: value for name, value in given.items() if value is not None}
    ShellCommand(url, run=run, out=out, store=check_optional_store(store), given=chosen).run()
