"""Generate the pages of ordinary hosts."""

from collections.abc import Iterator

from swath.testing.web.filler_text import ENGLISH, EUROPEAN, JAPANESE, make_sentences, pick_paragraph, pick_phrase
from swath.testing.web.host_layout import HostLayout
from swath.testing.web.page import DemoPage, PageLink, PageLocale
from swath.testing.web.page_paths import unescape_target
from swath.testing.web.seeded_random import SeededRandom

POPULAR = 0.3  # share of cross links that lead to front pages
ABROAD = 0.2  # share of cross links that lead to other hosts

_UTF8 = PageLocale(ENGLISH, "utf-8", "utf-8", "header")
# On the web Shift_JIS means cp932, which keeps ASCII unchanged.
LOCALES = (
    *(_UTF8,) * 10,
    PageLocale(EUROPEAN, "utf-8", "utf-8", "header"),
    PageLocale(EUROPEAN, "utf-8", "utf-8", "meta"),
    PageLocale(EUROPEAN, "utf-8", "utf-8", "bom"),
    PageLocale(EUROPEAN, "iso-8859-1", "latin-1", "header"),
    PageLocale(EUROPEAN, "iso-8859-1", "latin-1", "meta"),
    PageLocale(EUROPEAN, "windows-1252", "cp1252", "header"),
    PageLocale(JAPANESE, "utf-8", "utf-8", "header"),
    PageLocale(JAPANESE, "Shift_JIS", "cp932", "header"),
    PageLocale(JAPANESE, "Shift_JIS", "cp932", "meta"),
    PageLocale(JAPANESE, "EUC-JP", "euc_jp", "header"),
)
CODINGS = ("", "", "", "gzip", "gzip", "gzip", "gzip", "deflate", "chunked")
_CHILD_TAGS = ("a",) * 15 + ("area", "iframe", "next", "alternate", "refresh")
_NOISE = (
    '<a href="mailto:info@demo.test">write</a>',
    '<a href="javascript:void(0)">open</a>',
    '<a href="tel:+10000000">call</a>',
    '<a href="data:text/html,hello">data</a>',
    '<a href="#top">top</a>',
    "<a name=anchor>no link</a>",
)


def generate_page(host: HostLayout, number: int) -> DemoPage:
    """Return page `number` of a host. It is the same in every process."""
    plan = host.plan
    random = SeededRandom(plan.seed, host.number, number)
    locale = random.pick(LOCALES)
    based = random.is_true(0.08)
    links = [
        _make_link(random, host, host, child, random.pick(_CHILD_TAGS), locale, based)
        for child in host.children(number)
    ]
    if number == 0:
        links += [
            _make_link(random, host, HostLayout(plan, guest), 0, "a", locale, based)
            for guest in host.list_linked_hosts()
        ]
    elif random.is_true(0.3):
        links.append(PageLink("canonical", host.url(number), host.url(number)))
    for _ in range(random.log_uniform(*plan.links)):
        there = host
        if random.is_true(ABROAD) and plan.hosts > 1:
            there = HostLayout(plan, random.log_uniform(1, plan.hosts + 1) - 1)
        other = 0 if random.is_true(POPULAR) else random.below(there.linked)
        links.append(_make_link(random, host, there, other, "a", locale, based))
    size = random.log_uniform(*plan.size)
    return DemoPage(
        url=host.url(number),
        title=f"{pick_phrase(locale.language, random)} {number}",
        locale=locale,
        links=tuple(links),
        base=plan.url(host.name, "/") if based else None,
        other_markup=tuple(_make_asides(random, host, number)),
        paragraphs=tuple(_make_paragraphs(random, plan.seed, locale, size - 60 * len(links))),
        coding=random.pick(CODINGS),
    )


def _make_paragraphs(random: SeededRandom, seed: int, locale: PageLocale, size: int) -> Iterator[str]:
    sentences = make_sentences(seed, locale.language)
    weight = 2 if locale.language is JAPANESE else 1
    while True:
        text = pick_paragraph(sentences, random)
        yield text
        size -= len(text) * weight + 8
        if size <= 0:
            return


def _make_asides(random: SeededRandom, host: HostLayout, number: int) -> Iterator[str]:
    for target in host.mentions(number):
        yield _ASIDES[target.split("/")[1]].format(target)
    if (outside := host.outside_link(number)) is not None:
        yield f'<a href="{outside}">elsewhere</a>\n'
    if random.is_true(0.2):
        yield random.pick(_NOISE) + "\n"


_ASIDES = {
    "private": '<a href="{}">for members</a>\n',
    "unfollowed": '<a rel="noopener NoFollow" href="{}">advertisement</a>\n',
    "commented": '<!-- <a href="{}">was here</a> -->\n',
    "scripted": "<script>document.write('<a href=\"{}\">later</a>');</script>\n",
}


def _make_link(
    random: SeededRandom, here: HostLayout, there: HostLayout, number: int, tag: str, locale: PageLocale, based: bool
) -> PageLink:
    target = there.target(number)
    url = there.plan.url(there.name, target)
    if tag == "refresh":
        return PageLink(tag, url, url)
    return PageLink(tag, _choose_href(random, here, there, target, url, locale, based), url)


def _choose_href(
    random: SeededRandom, here: HostLayout, there: HostLayout, target: str, url: str, locale: PageLocale, based: bool
) -> str:
    """Return one of many ways to write the same URL."""
    turn = random.below(16)
    if there is not here and there.number != here.number:
        turn = turn // 4
    match turn:
        case 0 | 7:
            return url
        case 1:
            port = ":443" if there.plan.scheme == "https" else ":80"
            return f"{there.plan.scheme.upper()}://{there.name.upper()}{port}{target}"
        case 2:
            return f"//{there.name}{target}"
        case 3:
            return f"{url}#part-{turn}"
        case 4:
            return f"../../..{target}"
        case 5:
            return f"/./away/..{target}"
        case 6:
            return f" {target}\n"
        case 8:
            return f"{target[:2]}\t{target[2:]}"
        case 9:
            return f"{target}#top"
        case 10 if based:
            return target[1:] or "./"
        case 11 | 12:
            return unescape_target(target, locale.codec)
        case _:
            return target
