"""`--select NAME=SELECTOR`: a handler for every page that needs no code."""

import re
from collections.abc import Iterator, Sequence
from typing import Any, Final, NamedTuple

from swath import InvalidSetting
from swath.crawl.handlers.crawler import Crawler
from swath.crawl.handlers.errors import InvalidSelector
from swath.crawl.handlers.items import META
from swath.crawl.handlers.page import Page
from swath.crawl.handlers.selection import URL_ATTRIBUTES, check_selector

NAME: Final = "--select"  # of the code of such a crawl

_FIELD = re.compile(r"(?P<name>[^=\s]+)=(?P<selector>[^@]+?)(?:@(?P<attribute>[A-Za-z][\w-]*))?", re.DOTALL)


class SelectedField(NamedTuple):
    """A field of the items: the text of the first element that matches, or one of its attributes."""

    name: str
    selector: str
    attribute: str | None


def parse_field(text: str) -> SelectedField:
    """Parse `name=selector` or `name=selector@attribute`. Raise InvalidSetting if it is something else."""
    found = _FIELD.fullmatch(text)
    if found is None:
        raise InvalidSetting(
            f"{NAME} {text!r}: write name=selector, such as title=h1, or name=selector@attribute, such as image=img@src"
        )
    name, selector, attribute = found["name"], found["selector"], found["attribute"]
    if name in META:
        raise InvalidSetting(f"{NAME} {text!r}: swath adds the field {name} to each item; choose another name")
    try:
        check_selector(selector)
    except InvalidSelector as error:
        raise InvalidSetting(f"{NAME} {text!r}: {error}") from None
    return SelectedField(name, selector, attribute)


def make_select_crawler(texts: Sequence[str]) -> Crawler:
    """Return a crawler that follows the scope, and yields an item for each page on which some selector matches."""
    selected = [parse_field(text) for text in texts]
    names = [field.name for field in selected]
    if twice := {name for name in names if names.count(name) > 1}:
        raise InvalidSetting(f"{NAME} gives the field {min(twice)} twice: choose another name")
    crawler = Crawler()

    @crawler.default(links="scope")
    async def select(page: Page) -> Sequence[dict[str, Any]]:
        # Async, because it only computes for a moment: handing a page to a thread would take longer.
        fields = dict(_read_fields(page, selected))
        return [fields] if any(value is not None for value in fields.values()) else []

    return crawler


def _read_fields(page: Page, selected: Sequence[SelectedField]) -> Iterator[tuple[str, str | None]]:
    for name, selector, attribute in selected:
        found = page.css(selector)
        if attribute is None:
            yield name, found.text()
        else:
            value = found.attr(attribute)
            is_url = value is not None and attribute in URL_ATTRIBUTES
            yield name, page.resolve(value or "") if is_url else value
