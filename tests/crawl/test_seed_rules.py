"""Which seeds are refused before they are queued, because their address is known and not public."""

from pathlib import Path
from typing import Any

import pytest

from swath.crawl.seed_list import BadSeed, Seed
from swath.crawl.seeds import SeedRules
from swath.crawl.settings import CrawlSettings

NAME, ADDRESS, PUBLIC = "http://localhost/", "http://127.0.0.1/", "http://192.0.9.1/"
PROXY = {"proxy": "http://proxy.example:3128"}
CONNECT = {"connect_to": ("::127.0.0.1:8080",)}


@pytest.mark.parametrize(
    ("given", "refused"),
    [
        ({}, {NAME, ADDRESS}),
        ({"allow_private": True}, set()),
        (CONNECT, set()),
        (PROXY, {ADDRESS}),  # the proxy resolves names
        (PROXY | {"allow_private": True}, set()),
        (PROXY | CONNECT, set()),
    ],
)
def test_a_seed_of_this_machine_is_refused_unless_something_permits_it(
    tmp_path: Path, given: dict[str, Any], refused: set[str]
) -> None:
    rules = SeedRules(CrawlSettings(out=str(tmp_path), **given))
    found: set[str] = set()
    for text in (NAME, ADDRESS, PUBLIC, "http://a.example/"):
        seed = Seed(text)
        try:
            rules.check(seed)
        except BadSeed:
            found.add(text)
    assert found == refused


def test_the_message_names_the_option(tmp_path: Path) -> None:
    with pytest.raises(BadSeed, match="give --allow-private to crawl it"):
        SeedRules(CrawlSettings(out=str(tmp_path))).check(Seed(NAME))
