"""The file in a crawl's directory that names its frontier, if that is not in the directory itself."""

import os
from pathlib import Path
from urllib.parse import quote

from swath import StoreURL, mask_password

FILE = "frontier-url"


def save_store_url(directory: Path, store: str | None) -> None:
    """Write the file for a crawl with --store, with passwords masked; remove it for a crawl without."""
    path = directory / FILE
    if store is None:
        path.unlink(missing_ok=True)
        return
    new = path.with_suffix(".new")
    new.write_text(f"{mask_password(_make_absolute(store))}\n", encoding="utf-8", errors="surrogateescape")
    new.replace(path)


def read_store_url(directory: Path) -> str | None:
    """Return the URL of a crawl's frontier, with `***` in place of passwords, or None if it is in the directory."""
    try:
        return (directory / FILE).read_text(encoding="utf-8", errors="surrogateescape").strip()
    except FileNotFoundError:
        return None


def _make_absolute(store: str) -> str:
    """Return a URL that names the same file from another directory."""
    url = StoreURL.parse(store)
    if url.scheme != "sqlite":
        return store
    path = quote(os.path.abspath(url.path), errors="surrogateescape")
    _, mark, query = store.partition("?")
    return f"sqlite:///{path}{mark}{query}"
