"""Draws the pages of ordinary hosts."""

from collections.abc import Iterator

from swath.testing.web.host import Host
from swath.testing.web.page import Link, Page, Voice
from swath.testing.web.paths import spelled_out
from swath.testing.web.prose import ENGLISH, EUROPEAN, JAPANESE, paragraph, phrase, pool
from swath.testing.web.seeded_random import Chance

POPULAR = 0.3  # of the links across, so many lead to front pages
ABROAD = 0.2  # and so many to other hosts

_UTF8 = Voice(ENGLISH, "utf-8", "utf-8", "header")
# cp932 is what the web means by Shift_JIS, and leaves ASCII alone.
VOICES = (
    *(_UTF8,) * 10,
    Voice(EUROPEAN, "utf-8", "utf-8", "header"),
    Voice(EUROPEAN, "utf-8", "utf-8", "meta"),
    Voice(EUROPEAN, "utf-8", "utf-8", "bom"),
    Voice(EUROPEAN, "iso-8859-1", "latin-1", "header"),
    Voice(EUROPEAN, "iso-8859-1", "latin-1", "meta"),
    Voice(EUROPEAN, "windows-1252", "cp1252", "header"),
    Voice(JAPANESE, "utf-8", "utf-8", "header"),
    Voice(JAPANESE, "Shift_JIS", "cp932", "header"),
    Voice(JAPANESE, "Shift_JIS", "cp932", "meta"),
    Voice(JAPANESE, "EUC-JP", "euc_jp", "header"),
)
CODINGS = ("", "", "", "gzip", "gzip", "gzip", "gzip", "deflate", "chunked")
_CHILD_TAGS = ("a",) * 15 + ("area", "iframe", "next", "alternate", "refresh")
_NOISE = (
    '<a href="mailto:somebody@demo.test">write</a>',
    '<a href="javascript:void(0)">open</a>',
    '<a href="tel:+10000000">call</a>',
    '<a href="data:text/html,hello">data</a>',
    '<a href="#top">top</a>',
    "<a name=anchor>no link</a>",
)


def draw(host: Host, number: int) -> Page:
    """Page `number` of a host, always the same."""
    plan = host.plan
    chance = Chance(plan.seed, host.number, number)
    voice = chance.pick(VOICES)
    based = chance.happens(0.08)
    links = [
        _link(chance, host, host, child, chance.pick(_CHILD_TAGS), voice, based) for child in host.children(number)
    ]
    if number == 0:
        links += [_link(chance, host, Host(plan, guest), 0, "a", voice, based) for guest in host.introduces()]
    elif chance.happens(0.3):
        links.append(Link("canonical", host.url(number), host.url(number)))
    for _ in range(chance.skewed(*plan.links)):
        there = host
        if chance.happens(ABROAD) and plan.hosts > 1:
            there = Host(plan, chance.skewed(1, plan.hosts + 1) - 1)
        other = 0 if chance.happens(POPULAR) else chance.below(there.linked)
        links.append(_link(chance, host, there, other, "a", voice, based))
    size = chance.skewed(*plan.size)
    return Page(
        url=host.url(number),
        title=f"{phrase(voice.language, chance)} {number}",
        voice=voice,
        links=tuple(links),
        base=plan.url(host.name, "/") if based else None,
        asides=tuple(_asides(chance, host, number)),
        paragraphs=tuple(_text(chance, plan.seed, voice, size - 60 * len(links))),
        coding=chance.pick(CODINGS),
    )


def _text(chance: Chance, seed: int, voice: Voice, size: int) -> Iterator[str]:
    sentences = pool(seed, voice.language)
    weight = 2 if voice.language is JAPANESE else 1
    while True:
        text = paragraph(sentences, chance)
        yield text
        size -= len(text) * weight + 8
        if size <= 0:
            return


def _asides(chance: Chance, host: Host, number: int) -> Iterator[str]:
    for target in host.mentions(number):
        yield _ASIDES[target.split("/")[1]].format(target)
    if (outside := host.outside(number)) is not None:
        yield f'<a href="{outside}">elsewhere</a>\n'
    if chance.happens(0.2):
        yield chance.pick(_NOISE) + "\n"


_ASIDES = {
    "private": '<a href="{}">for members</a>\n',
    "unfollowed": '<a rel="noopener NoFollow" href="{}">advertisement</a>\n',
    "commented": '<!-- <a href="{}">was here</a> -->\n',
    "scripted": "<script>document.write('<a href=\"{}\">later</a>');</script>\n",
}


def _link(chance: Chance, here: Host, there: Host, number: int, tag: str, voice: Voice, based: bool) -> Link:
    target = there.target(number)
    url = there.plan.url(there.name, target)
    if tag == "refresh":
        return Link(tag, url, url)
    return Link(tag, _href(chance, here, there, target, url, voice, based), url)


def _href(chance: Chance, here: Host, there: Host, target: str, url: str, voice: Voice, based: bool) -> str:
    """One of the many ways to write a URL, all of which mean the same."""
    turn = chance.below(16)
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
            return spelled_out(target, voice.codec)
        case _:
            return target
