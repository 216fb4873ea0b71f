"""Check the arguments of `Crawler(…)`: its seeds, its limits and the settings of the crawl."""

import math
import os
from collections.abc import Mapping, Sequence
from dataclasses import fields
from difflib import get_close_matches
from typing import Any, Final, get_type_hints

from swath import InvalidSetting, UsageError
from swath.crawl.settings import SETTINGS, CrawlSettings

_OF_A_RUN: Final = ("run", "items")  # settings that a crawler cannot have
_TYPES: Final = get_type_hints(CrawlSettings)


def check_seeds(seeds: Sequence[object]) -> None:
    """Raise UsageError if a seed is not a text."""
    for seed in seeds:
        if not isinstance(seed, str):
            raise UsageError(
                f"the seed {seed!r:.100} is of type {type(seed).__name__}: pass each URL as an argument, such as "
                'Crawler("https://a.example/", "https://b.example/")'
            )


def check_limit(name: str, value: object) -> None:
    """Raise InvalidSetting if a limit is not a number above 0."""
    if not _is_number(value):
        raise InvalidSetting(f"{name}={value!r:.80}: pass a number")
    assert isinstance(value, int | float)
    if value <= 0:
        raise InvalidSetting(f"{name}={value}: must be above 0")


def convert_settings(settings: Mapping[str, Any], *, call: str) -> dict[str, Any]:
    """Return the settings with the types of CrawlSettings: tuples for lists, texts for paths.

    Raise InvalidSetting if one is unknown or wrong. `call` names what the user has called.
    """
    known = {one.name for one in fields(CrawlSettings)} - set(_OF_A_RUN)
    converted: dict[str, Any] = {}
    for name, value in settings.items():
        if name not in known:
            near = get_close_matches(name, known, n=1)
            meant = f"did you mean {near[0]}?" if near else f"use one of {', '.join(sorted(known & SETTINGS.keys()))}"
            raise InvalidSetting(f"{call}({name}=…): there is no such setting; {meant}")
        if isinstance(value, os.PathLike):
            value = os.fspath(value)
        elif isinstance(value, list):
            value = tuple(value)
        if (wanted := _find_mistake(name, value)) is not None:
            raise InvalidSetting(f"{call}({name}={value!r:.80}): pass {wanted}")
        converted[name] = value
    CrawlSettings(**converted)
    return converted


def _find_mistake(name: str, value: object) -> str | None:
    """Return what a setting takes, if it does not take this value."""
    info, kind = SETTINGS.get(name), _TYPES[name]
    unit = None if info is None else info.unit
    if kind == tuple[str, ...]:
        right = isinstance(value, tuple) and all(isinstance(one, str) for one in value)
        return None if right else "a list of texts"
    if value is None and kind in (str | None, int | None, float | None):
        return None
    if kind in (float, float | None):
        return None if _is_number(value) else "seconds as a number, such as 1.5" if unit == "duration" else "a number"
    if kind in (int, int | None):
        right = isinstance(value, int) and not isinstance(value, bool)
        return None if right else "bytes as a whole number" if unit == "size" else "a whole number"
    if kind is bool:
        return None if isinstance(value, bool) else "True or False"
    return None if isinstance(value, str) else "a text"


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)
