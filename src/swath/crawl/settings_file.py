"""`crawl.json`: the settings of a crawl beside its output, so that a resume needs no options.

A setting has the value that the user gives, otherwise the saved one, otherwise its default. Settings that may differ
from run to run are not saved (see `SettingInfo.saved`). The URL of the store is saved without its password.
"""

import json
import os
import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import fields
from pathlib import Path
from typing import Any, Final, get_args
from urllib.parse import quote, urlencode

from swath import InvalidSetting, StoreURL, UsageError, find_passwords, mask_password
from swath.crawl.settings import SETTINGS, CrawlSettings, format_flag
from swath.files.replace_file import replace_file

FILE = "crawl.json"
STORE = "store"
NO_PASSWORD = "store_without_password"  # the URL had a password, which is not in the file
EVERYTHING = "all"  # for --reset

_DEFAULTS: Final = {one.name: json.loads(json.dumps(one.default)) for one in fields(CrawlSettings)}
_TYPES: Final = {one.name: one.type for one in fields(CrawlSettings)}
_MASKED_PASSWORD = re.compile(r":\*\*\*(?=@)|(?<=[?&])(?:ssl)?password=\*\*\*(?:&|$)")


def resolve_settings(given: Mapping[str, Any], *, reset: Iterable[str] = ()) -> CrawlSettings:
    """Return the settings of a crawl: given, else saved, else the default.

    `given` has only what the user gave. `reset` names saved settings that return to their defaults.
    """
    saved = _read_values(_get_path(given))
    ignored = _parse_names(reset)
    kept = {name: _load(name, value) for name, value in saved.items() if _is_saved(name) and name not in ignored}
    if isinstance(store := saved.get(STORE), str):
        kept[STORE] = store
    return CrawlSettings(**{**kept, **given})


def read_location(out: str, store: str | None = None) -> CrawlSettings:
    """Return the default settings for a crawl, with its directory and its store."""
    return CrawlSettings(out=out, store=store or _read_values(Path(out, FILE)).get(STORE))


def locate_crawl(out: str, store: str | None = None) -> CrawlSettings:
    """Do the same for an existing crawl. Raise UsageError if its frontier belongs in the directory and is not there."""
    settings = read_location(out, store)
    if settings.store is None and not (settings.directory / "frontier.db").exists():
        raise UsageError(f"there is no crawl in {out}: name its directory with --out")
    return settings


def lacks_password(settings: CrawlSettings) -> bool:
    """Return whether the store of these settings was saved without its password."""
    saved = _read_values(settings.directory / FILE)
    return bool(saved.get(NO_PASSWORD)) and saved.get(STORE) == settings.store


def check_same_store(settings: CrawlSettings) -> None:
    """Raise UsageError if the directory belongs to another store than that of these settings."""
    saved = _read_values(settings.directory / FILE)
    if STORE in saved and saved[STORE] != _format_store(settings):
        named = saved[STORE] or CrawlSettings(out=settings.out).store_url
        raise UsageError(
            f"{settings.directory} holds the crawl in {named}, not the one in {mask_password(settings.store_url)}: "
            "leave out --store and SWATH_STORE"
        )


def save_settings(settings: CrawlSettings) -> None:
    values = _list_values(settings)
    if find_passwords(settings.store or "") or lacks_password(settings):
        values[NO_PASSWORD] = True
    replace_file(settings.directory / FILE, [json.dumps(values, indent=2), "\n"])


def find_changes(settings: CrawlSettings) -> Sequence[str]:
    """Describe each setting that differs from the previous run; nothing for the first run."""
    before = _read_values(settings.directory / FILE)
    if not before:
        return []
    known = {**_DEFAULTS, STORE: None, **before}
    return [
        f"{format_flag(name)} was {_format(name, known[name])} before and is now {_format(name, value)}"
        for name, value in _list_values(settings).items()
        if known[name] != value
    ]


def _list_values(settings: CrawlSettings) -> dict[str, Any]:
    """Return what is saved, as JSON has it. Paths are absolute: the next run may start in another directory."""
    values: dict[str, Any] = json.loads(json.dumps(settings.get_saved_values()))
    if settings.exclude_hosts is not None:
        values["exclude_hosts"] = os.path.abspath(settings.exclude_hosts)
    return {**values, STORE: _format_store(settings)}


def _get_path(given: Mapping[str, Any]) -> Path:
    return Path(given.get("out", _DEFAULTS["out"]), FILE)


def _read_values(path: Path) -> dict[str, Any]:
    """Return the values in the file; none if there is no file."""
    try:
        values = json.loads(path.read_bytes())
        if not isinstance(values, dict):
            raise ValueError("not an object")
    except (FileNotFoundError, NotADirectoryError):
        return {}
    except ValueError as error:
        raise InvalidSetting(f"{path} is damaged ({error}): remove it to continue") from error
    return values


def _is_saved(name: str) -> bool:
    """Return whether a value of the file is that of an option. A newer swath may have saved other ones."""
    return name in SETTINGS and SETTINGS[name].saved


def _parse_names(reset: Iterable[str]) -> Collection[str]:
    names = {name.removeprefix("--").replace("-", "_") for name in reset}
    options = {name for name in SETTINGS if _is_saved(name)}
    if EVERYTHING in names:
        return options
    if unknown := sorted(names - options):
        raise InvalidSetting(
            f"--reset {unknown[0].replace('_', '-')}: is not the name of a saved setting. Use {EVERYTHING}, or one of "
            f"{', '.join(name.replace('_', '-') for name in SETTINGS if name in options)}"
        )
    return names


def _load(name: str, value: Any) -> Any:
    """Return a value of the file as CrawlSettings has it."""
    if isinstance(value, list) and all(isinstance(one, str) for one in value):
        value = tuple(value)
    allowed = {*get_args(_TYPES[name]), _TYPES[name]} if _TYPES[name] != tuple[str, ...] else {tuple}
    if type(value) not in allowed and not (type(value) is int and float in allowed):
        raise InvalidSetting(f"{FILE}: {name} is {value!r}, which is not a value of {format_flag(name)}: correct it")
    return value


def _format_store(settings: CrawlSettings) -> str | None:
    """Return the store URL for the file: without passwords, and with the absolute path of a SQLite file. None stands
    for the default, so that the directory can be moved."""
    if settings.store is None:
        return None
    url = StoreURL.parse(settings.store)
    if url.scheme == "sqlite":
        path = os.path.abspath(url.path)
        if path == os.path.abspath(settings.directory / "frontier.db") and not url.query:
            return None
        query = f"?{urlencode(url.query)}" if url.query else ""
        return f"sqlite:///{quote(path, errors='surrogateescape')}{query}"
    return _MASKED_PASSWORD.sub("", mask_password(settings.store)).rstrip("?&")


def _format(name: str, value: Any) -> str:
    if name == STORE and value is None:
        return "the default"
    if value in (None, [], ()):
        return "not set"
    return json.dumps(value) + (" (the default)" if value == _DEFAULTS[name] else "")
