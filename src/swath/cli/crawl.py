"""`swath crawl`: a polite crawl of one site or of a million hosts.

The options are generated from the fields of `CrawlSettings`: a new setting is written there, and only there.
"""

import asyncio
import inspect
from collections.abc import Callable, Sequence
from dataclasses import Field, fields
from typing import TYPE_CHECKING, Annotated, Any

import typer

from swath import MissingExtra, StoreUnavailable
from swath.cli.command import check_optional_store, run_command
from swath.cli.parsers import parse_duration, parse_size
from swath.crawl.settings import OUTPUT, SETTINGS, CrawlSettings, SettingInfo, format_flag
from swath.crawl.settings_file import EVERYTHING, FILE, lacks_password, resolve_settings

if TYPE_CHECKING:
    from swath.crawl.handlers.code import CrawlCode

MISSING = "`swath crawl` needs more packages: pip install 'swath[crawl]'"
PARSERS: dict[str | None, Callable[..., Any] | None] = {"duration": parse_duration, "size": parse_size, None: None}


def crawl(
    ctx: typer.Context,
    urls: Annotated[
        list[str] | None,
        typer.Argument(metavar="[URL...]", show_default=False, help="URLs or host names to start from"),
    ] = None,
    seeds: Annotated[
        str | None,
        typer.Option(
            "--seeds", metavar="FILE", help="File with more seeds, one per line or a table; - is standard input"
        ),
    ] = None,
    seeds_strict: Annotated[
        bool, typer.Option("--seeds-strict", help="Refuse a --seeds file with a bad line instead of skipping the line")
    ] = False,
    fresh: Annotated[
        bool,
        typer.Option("--fresh", help="Discard the crawl in DIR, with its archive and its frontier, and start over"),
    ] = False,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Do not ask before --fresh discards the crawl")] = False,
    reset: Annotated[
        list[str] | None,
        typer.Option("--reset", metavar="NAME", help="Return a saved setting to its default, such as exclude, or all"),
    ] = None,
    json: Annotated[
        bool,
        typer.Option("--json", help="Print progress and summary as JSON lines", rich_help_panel=OUTPUT),
    ] = False,
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="Print errors only", rich_help_panel=OUTPUT)] = False,
    **values: Any,
) -> None:
    """Crawl politely: obey robots.txt, pause between requests to a host, and archive every page as WARC.

    Run it with the same --out to resume, after Ctrl-C or after a crash: the directory has the settings and the seeds.
    Exits with 0 if the crawl is complete and no page failed, with 1 if pages failed, no page was fetched or URLs are
    left, with 130 after Ctrl-C.

    Examples:
        swath crawl https://example.com
        swath crawl --seeds hosts.txt --scope any --contact crawl@example.org --out web
        swath crawl --run books:crawler --items books.jsonl
    """

    def load() -> "CrawlCode | None":  # both are called where their errors are printed
        if values["run"] is None:
            return None
        from swath.crawl.handlers.code import load_code

        return load_code(values["run"])

    def settings(code: "CrawlCode | None") -> CrawlSettings:
        given = {
            name: tuple(value) if name in _LISTS else value for name, value in values.items() if _is_given(ctx, name)
        }
        check_optional_store(values["store"])
        of_crawler = {} if code is None else code.crawler.settings
        return resolve_settings({**of_crawler, **given}, reset=[EVERYTHING] if fresh else reset or ())

    work = _crawl(load, settings, urls or [], seeds, strict=seeds_strict, fresh=fresh, yes=yes, json=json, quiet=quiet)
    run_command(values["store"], work, loop=_make_loop)


_LISTS = frozenset(field.name for field in fields(CrawlSettings) if field.type == tuple[str, ...])


def _is_given(ctx: typer.Context, name: str) -> bool:
    """Return whether the user gave an option, on the command line or in the environment."""
    source = ctx.get_parameter_source(name)
    return source is not None and not source.name.startswith("DEFAULT")


def _build_signature() -> inspect.Signature:
    """Return the signature of `crawl` with one option per setting in the place of `**values`."""
    own = inspect.signature(crawl).parameters
    settings = [_build_option(field) for field in fields(CrawlSettings) if field.name in SETTINGS]
    before, after = ("ctx", "urls", "seeds", "seeds_strict"), ("fresh", "yes", "reset", "json", "quiet")
    return inspect.Signature([*(own[name] for name in before), *settings, *(own[name] for name in after)])


def _build_option(field: "Field[Any]") -> inspect.Parameter:
    info = SETTINGS[field.name]
    is_list = field.name in _LISTS
    flag = format_flag(field.name)
    option = typer.Option(
        f"{flag}/--no-{flag[2:]}" if isinstance(field.default, bool) else flag,
        *([info.short_flag] if info.short_flag else []),
        help=info.help,
        metavar=info.metavar,
        parser=PARSERS[info.unit],
        envvar=info.envvar,
        show_envvar=info.envvar is not None,
        show_default=_format_default(field.default, info),
        rich_help_panel=info.panel,
    )
    return inspect.Parameter(
        field.name,
        inspect.Parameter.POSITIONAL_OR_KEYWORD,
        default=None if is_list else field.default,
        annotation=Annotated[list[str] | None if is_list else field.type, option],
    )


def _format_default(default: Any, info: SettingInfo) -> bool | str:
    """Return what `--help` prints as the default; False to print none, True to print the value."""
    if info.default_text is not None:
        return info.default_text
    if default is None or default is False or default == ():
        return False
    if info.unit == "duration":
        return f"{default:g}s"
    if info.unit == "size":
        return f"{default // 10**9}GB" if default % 10**9 == 0 else f"{default // 10**6}MB"
    return True


# Typer reads the signature and the annotations of the function.
crawl.__signature__ = _build_signature()  # type: ignore[attr-defined]
crawl.__annotations__ = {name: one.annotation for name, one in _build_signature().parameters.items()}


def _make_loop() -> asyncio.AbstractEventLoop:
    try:
        import uvloop
    except ImportError as error:
        raise MissingExtra(MISSING) from error
    return uvloop.new_event_loop()


async def _crawl(
    load: "Callable[[], CrawlCode | None]",
    settings: "Callable[[CrawlCode | None], CrawlSettings]",
    urls: Sequence[str],
    seeds: str | None,
    *,
    strict: bool,
    fresh: bool,
    yes: bool,
    json: bool,
    quiet: bool,
) -> int:
    try:
        from swath.cli.crawl_command import CrawlCommand
    except ImportError as error:
        raise MissingExtra(MISSING) from error
    code = load()
    resolved = settings(code)
    if code is None:
        from swath.crawl.handlers.code import load_settings_code

        code = load_settings_code(resolved)
    if code is not None and not urls and seeds is None:
        urls = code.crawler.seeds
    try:
        command = CrawlCommand(resolved, code=code, fresh=fresh, yes=yes, json=json, quiet=quiet)
        return await command.run(urls, seeds, strict=strict)
    except StoreUnavailable as error:
        if lacks_password(resolved):
            error.add_note(
                f"{resolved.directory / FILE} has the store without its password: set PGPASSWORD, or give --store or "
                "SWATH_STORE"
            )
        raise
