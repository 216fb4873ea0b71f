"""What `--store`, SWATH_STORE and the argument STORE take: a URL, a file or a directory. Nothing here creates a file.

`resolve_store` turns a name into the URL of a database, and `find_frontier` finds the frontier in that database.
"""

import os
import re
import shlex
from collections.abc import Iterator, Sequence
from pathlib import Path
from urllib.parse import quote

import swath
from swath import InvalidStoreURL, NotAFrontier, StoreURL, UsageError, mask_password
from swath.cli.terminal import print_error

EXAMPLE = "sqlite:///work.db"
ACCEPTED = f"a directory of a crawl, a database file, the findings of a scan, or a URL such as {EXAMPLE}"

CRAWL_FRONTIER = "frontier.db"  # in the directory of a crawl
SCAN_SUFFIX = ".swath.db"  # of the frontier beside the findings of a scan
SQLITE_HEADER = b"SQLite format 3\0"
SQLITE_LOGS = ("-wal", "-shm", "-turn", "-journal")  # suffixes of the files that belong to a database
MAX_ENTRIES = 1_000  # of the current directory that are looked at
MAX_SHOWN = 10

_URL = re.compile(r"[A-Za-z][A-Za-z0-9+.-]+:")


def is_store(word: str) -> bool:
    """Return whether a word on the command line names a store: a URL, or a path that exists."""
    return "://" in word or os.path.lexists(word)


def resolve_store(store: str | None) -> str:
    """Return the URL of the store that the user named, or of the only frontier in the current directory.

    Raise InvalidStoreURL if the name is not that of a database, or if another process could not open it.
    """
    if not store:
        return _find_here()
    url = store if _is_url(store) else _resolve_path(Path(store))
    if StoreURL.parse(url).scheme == "memory":
        raise InvalidStoreURL(f"{url} lives inside one process: give a persistent store, such as {EXAMPLE}")
    return url


async def find_frontier(store: str | None) -> str:
    """Return the URL of the frontier that the user named.

    If the user named a database without a schema, it is the default frontier, or else the only one.
    """
    url = resolve_store(store)
    return choose_frontier(url, await list_frontiers(url))


async def list_frontiers(url: str) -> Sequence[str]:
    """Return the URLs of the frontiers that a URL may mean: none if it names one of them itself."""
    return [] if "schema" in StoreURL.parse(url).query else await swath.list_frontiers(url)


def choose_frontier(url: str, found: Sequence[str]) -> str:
    """Return the URL of the default frontier of a database, or else of the only one."""
    named = [one for one in found if "schema" in StoreURL.parse(one).query]
    if not named or len(named) < len(found):
        return url
    if len(found) > 1:
        raise NotAFrontier(
            f"{mask_password(url)} holds {len(found)} frontiers: name one of them with --store: "
            f"{_join(mask_password(one) for one in found)}"
        )
    print_error(f"note: using {mask_password(found[0])}, the only frontier in this database")
    return found[0]


def _is_url(store: str) -> bool:
    return _URL.match(store) is not None and ("://" in store or not os.path.lexists(store))


def _make_url(path: Path) -> str:
    return f"sqlite:///{quote(str(path), errors='surrogateescape')}"


# Paths


def _resolve_path(path: Path) -> str:
    if path.is_dir():
        return _resolve_directory(path)
    if not path.exists():
        raise InvalidStoreURL(_explain_missing(path))
    if (beside := path.with_name(f"{path.name}{SCAN_SUFFIX}")).is_file():
        return _make_url(beside)
    if _is_sqlite(path):
        return _make_url(path)
    raise InvalidStoreURL(_explain_other_file(path))


def _resolve_directory(directory: Path) -> str:
    from swath.crawl.settings_file import lacks_password, read_location  # imported here: most commands load no job

    crawl = read_location(str(directory))
    if crawl.store is not None:
        if lacks_password(crawl):
            raise InvalidStoreURL(
                f"the crawl in {directory} keeps its frontier in {crawl.store}, and swath saves no passwords: "
                "give that URL with its password"
            )
        return crawl.store
    if (directory / CRAWL_FRONTIER).exists():
        return _make_url(directory / CRAWL_FRONTIER)
    if (directory / "crawl.json").exists():
        raise InvalidStoreURL(
            f"{directory} is the directory of a crawl, but it has no {CRAWL_FRONTIER}: "
            "give the --store of that crawl, or restore the file"
        )
    found = list(_list_frontiers_in(directory))
    if found:
        raise InvalidStoreURL(f"{directory} is not the directory of a crawl; it holds {_join(found)}: name one of them")
    raise InvalidStoreURL(f"{directory} is a directory without a frontier: give {ACCEPTED}")


def _explain_missing(path: Path) -> str:
    near = ""
    if path.suffix in (".db", ".sqlite", ".sqlite3") or str(path.parent) != ".":
        near = f". To create a frontier there, run `swath add` or `swath db init` with --store {_make_url(path)}"
    return f"{path} does not exist: give {ACCEPTED}{near}"


def _explain_other_file(path: Path) -> str:
    for suffix in SQLITE_LOGS:
        if path.name.endswith(suffix) and _is_sqlite(main := path.with_name(path.name.removesuffix(suffix))):
            return f"{path} belongs to the database {main}: give that file"
    if path.suffix in (".jsonl", ".parquet"):
        return (
            f"{path} is not a database, and there is no {path.name}{SCAN_SUFFIX} beside it: "
            "if a scan with --store wrote it, give that store; for a crawl, give its directory"
        )
    if not path.is_file():
        return f"{path} is not a regular file: give {ACCEPTED}"
    if path.stat().st_size == 0:
        return f"{path} is empty: give {ACCEPTED}. To create a frontier in it, use {_make_url(path)}"
    return f"{path} is not a database of SQLite: give {ACCEPTED}"


def _is_sqlite(path: Path) -> bool:
    # Never open a database that may be in use without SQLite: closing it would drop SQLite's locks. This process has
    # not opened any yet.
    try:
        with path.open("rb") as file:
            return file.read(len(SQLITE_HEADER)) == SQLITE_HEADER
    except OSError as error:
        if isinstance(error, FileNotFoundError):
            return False
        raise InvalidStoreURL(f"{path} cannot be read: {error.strerror}") from error


# The current directory


def _find_here() -> str:
    found = list(_list_frontiers_in(Path()))
    if len(found) == 1:
        print_error(f"note: using {found[0]}, the only frontier in this directory")
        return resolve_store(found[0])
    asked = f"no store: give --store STORE or set SWATH_STORE, for example --store {EXAMPLE}"
    if found:
        raise UsageError(f"{asked}. This directory has {_join(found)}")
    raise InvalidStoreURL(asked)


def _list_frontiers_in(directory: Path) -> Iterator[str]:
    """Yield directories of crawls, scans and files of frontiers in a directory, as the user would name them."""
    if (directory / "crawl.json").exists():
        yield f"{directory}{os.sep}"
        return
    try:
        entries = sorted(entry for _, entry in zip(range(MAX_ENTRIES), directory.iterdir(), strict=False))
    except OSError:
        return
    for entry in entries:
        if entry.is_dir():
            if (entry / "crawl.json").exists():
                yield f"{entry}{os.sep}"
        elif entry.name.endswith(SCAN_SUFFIX):
            findings = entry.with_name(entry.name.removesuffix(SCAN_SUFFIX))
            yield str(findings if findings.exists() else entry)
        elif entry.suffix in (".db", ".sqlite", ".sqlite3") and _holds_frontier(entry):
            yield str(entry)


def _holds_frontier(path: Path) -> bool:
    """Return whether a file has swath's mark: its application id, which SQLite keeps at byte 68 of the header."""
    try:
        with path.open("rb") as file:
            return file.read(72)[68:] == b"swth"
    except OSError:
        return False


def _join(names: Iterator[str] | Sequence[str]) -> str:
    shown = list(names)
    more = f" and {len(shown) - MAX_SHOWN} more" if len(shown) > MAX_SHOWN else ""
    return ", ".join(shown[:MAX_SHOWN]) + more


def format_store_option(store: str | None) -> str:
    """Return what the user has to add to another command to name the same store."""
    if not store or store == os.environ.get("SWATH_STORE"):
        return ""
    return f" --store {shlex.quote(mask_password(store))}"
