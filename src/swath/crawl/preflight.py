"""Check settings that depend on each other or on files, before anything is created."""

from collections.abc import Sequence
from pathlib import Path

from swath import UsageError
from swath.crawl import seeds
from swath.crawl.http.connect_to import ConnectTo
from swath.crawl.settings import CrawlSettings
from swath.crawl.urls.scope import build_scope


def check_settings(settings: CrawlSettings) -> None:
    """Raise UsageError for settings that cannot work, before anything is created."""
    if settings.scope == "any" and settings.contact is None:
        raise UsageError(seeds.ask_for_contact("--scope any follows links to any host"))
    hosts: Sequence[str] = ()
    if settings.exclude_hosts is not None:
        try:
            hosts = Path(settings.exclude_hosts).read_text().splitlines()
            if not Path(settings.exclude_hosts).is_file():
                raise UsageError(f"--exclude-hosts {settings.exclude_hosts} is read again later: give a regular file")
        except OSError as error:
            raise UsageError(f"--exclude-hosts {settings.exclude_hosts}: {error.strerror or error}") from error
        except UnicodeDecodeError as error:
            raise UsageError(f"--exclude-hosts {settings.exclude_hosts}: not UTF-8") from error
    build_scope(settings.scope, include=settings.include, exclude=settings.exclude, excluded_hosts=hosts)
    ConnectTo.parse(settings.connect_to)
