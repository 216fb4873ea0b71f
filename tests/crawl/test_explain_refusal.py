"""Why a crawl did not add a URL: the rule and a sentence, in the order in which the rules apply."""

from pathlib import Path
from typing import Any

import pytest

from swath.crawl import seeds
from swath.crawl.urls.explain import explain_refusal


@pytest.fixture
def known(tmp_path: Path) -> dict[str, Any]:
    """The settings of a crawl of one host, as the frontier keeps them."""
    (tmp_path / seeds.FILE).write_text("http://a.example/\n", encoding="utf-8")
    return {"out": str(tmp_path), "scope": "host", "depth": 3}


@pytest.mark.parametrize(
    ("text", "changed", "name", "sentence"),
    [
        ("mailto:x@a.example", {}, "url", "It is not a URL that can be crawled."),
        ("http://A.example/x", {}, "spelling", "It is crawled as http://a.example/x."),
        (
            "http://a.example/x?utm_source=y",
            {"strip_tracking": True},
            "spelling",
            "It is crawled as http://a.example/x.",
        ),
        (
            "http://a.example/x?utm_source=y",
            {},
            "unlinked",
            "No rule excludes it: no crawled page links to it within --depth 3.",
        ),
        ("http://a.example/x", {"depth": None}, "unlinked", "No rule excludes it: no crawled page links to it."),
        ("http://b.example/x", {}, "scope", "It is refused (scope): it is outside the scope of the seeds."),
        ("http://a.example/a/a/a/a/a/a/a/a/", {}, "path-repeats", "It is refused as a trap ("),
    ],
)
def test_each_rule_has_its_sentence(
    known: dict[str, Any], text: str, changed: dict[str, Any], name: str, sentence: str
) -> None:
    found, explained = explain_refusal(text, known | changed, year=2026)
    assert explained.startswith(sentence)
    assert found == name


def test_handlers_and_hooks_choose_the_links_of_a_crawl_with_code(known: dict[str, Any]) -> None:
    assert explain_refusal("http://a.example/x", known, year=2026, has_handlers=True) == (
        "unlinked",
        "No rule excludes it: no handler follows a link to it within --depth 3, or a link hook drops it.",
    )


def test_without_the_seeds_the_scope_is_unknown(known: dict[str, Any], tmp_path: Path) -> None:
    path = tmp_path / seeds.FILE
    path.unlink()
    assert explain_refusal("http://b.example/", known, year=2026) == (
        "unknown",
        f"Its scope cannot be checked without {path}.",
    )
