"""Crawler: which handler a page gets, what is refused when handlers are registered, and `check`."""

import re
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from swath.core.errors import InvalidSetting, UsageError
from swath.crawl import Crawler, Follow, InvalidSelector, InvalidYield, NoMatch, Page, Request
from swath.crawl.handlers import collector
from swath.crawl.handlers.collector import MAX_BYTES, Collector
from swath.crawl.handlers.crawler import make_crawler
from tests.crawl.handlers import books

ROOT = Path(__file__).parents[3]


def test_the_spider_of_the_readme() -> None:
    details = Page.from_html(
        "<h1>Sapiens</h1><p class=price_color>£3", url="https://books.example/catalogue/sapiens_1/"
    )
    assert books.crawler.check(details).items == [books.Book("Sapiens", "£3")]
    found = books.crawler.check(
        Page.from_html("<article><h3><a href=catalogue/a_1/>A</a></h3></article><li class=next><a href=page-2>next</a>")
    )
    assert (found.handler, found.items) == ("listing", [])
    assert found.requests == [
        Request("https://example.com/catalogue/a_1/", to="book", priority=5), Request("https://example.com/page-2"),
    ]  # fmt: skip
    with pytest.raises(NoMatch, match="the selector 'h1' matches nothing"):
        books.crawler.check(Page.from_html("", url="https://books.example/catalogue/sapiens_1/"))


def test_the_documentation_shows_this_spider_and_its_test() -> None:
    shown = re.findall(r"^```python\n(.*?)^```", (ROOT / "docs/handlers.md").read_text(), re.MULTILINE | re.DOTALL)
    spider = Path(books.__file__).read_text().partition('"""\n\n')[2]
    assert shown[0].partition("\n\n\nif __name__")[0].strip() == spider.strip()
    assert f"```python\n{shown[0]}```" in (ROOT / "README.md").read_text()
    names = {**vars(books)}
    for test in ("test_book", "test_crawl"):
        (text,) = (text for text in shown if f"def {test}()" in text)
        exec(text, names)
        names[test]()


async def test_check_works_within_an_event_loop() -> None:
    page = Page.from_html("<h1>x", url="https://books.example/catalogue/sapiens_1/")
    assert books.crawler.check(page).items == [books.Book("x", None)]


# the choice of a handler


def make_several() -> Crawler:
    crawler = Crawler(aliases={"old": "first"})

    @crawler.handler(r"/a")
    def first(page: Page) -> None: ...

    @crawler.handler(r"/a/b")
    def second(page: Page) -> None: ...

    @crawler.default()
    def rest(page: Page) -> None: ...

    @crawler.error()
    def wrong(page: Page) -> None: ...

    return crawler


@pytest.mark.parametrize(
    ("url", "options", "name"),
    [
        ("https://x.example/a/b", {}, "first"),
        ("https://x.example/c", {}, "rest"),
        ("https://x.example/c", {"to": "second"}, "second"),
        ("https://x.example/a", {"to": "old"}, "first"),
        ("https://x.example/c", {"to": "gone"}, "rest"),
        ("https://x.example/a", {"to": "second", "status": 404}, "wrong"),
        ("https://x.example/a", {"status": 299}, "first"),
        ("https://x.example/a", {"status": 300}, "wrong"),
        ("https://x.example/a", {"status": 199}, "wrong"),
    ],
)
def test_a_page_has_one_handler(url: str, options: dict[str, Any], name: str) -> None:
    handler = make_several().choose(url, **options)
    assert handler is not None
    assert handler.name == name


def test_a_page_may_have_no_handler() -> None:
    crawler = Crawler()
    crawler.handler("/a")(lambda_like)
    assert crawler.check(Page.from_html("", url="https://x.example/b")).handler is None
    assert crawler.check(Page.from_html("", url="https://x.example/a", status=500)).handler is None


def lambda_like(page: Page) -> None:
    """Yields nothing."""


# what a handler may return


def yields_nothing(page: Page) -> None: ...


async def awaits_nothing(page: Page) -> None: ...


def returns_a_list(page: Page) -> list[dict[str, Any]]:
    return [{"n": 1}, {"n": 2}]


async def awaits_a_list(page: Page) -> list[dict[str, Any]]:
    return [{"n": 1}, {"n": 2}]


def yields(page: Page) -> Iterator[dict[str, Any]]:
    yield {"n": 1}
    yield {"n": 2}


async def yields_in_the_loop(page: Page) -> AsyncIterator[dict[str, Any]]:
    yield {"n": 1}
    yield {"n": 2}


@pytest.mark.parametrize("function", [returns_a_list, awaits_a_list, yields, yields_in_the_loop])
def test_a_handler_may_yield_or_return_a_list(function: Callable[..., Any]) -> None:
    crawler = Crawler()
    crawler.default()(function)
    assert crawler.check(Page.from_html("")).items == [{"n": 1}, {"n": 2}]


@pytest.mark.parametrize("function", [yields_nothing, awaits_nothing])
def test_a_handler_may_return_nothing(function: Callable[..., Any]) -> None:
    crawler = Crawler()
    crawler.default()(function)
    assert crawler.check(Page.from_html("")).items == []


BYTES: Any = [b"/"]


def check(value: object) -> Any:
    crawler = Crawler()

    def handler(page: Page) -> Any:
        return value

    crawler.default()(handler)
    return crawler.check(Page.from_html("<base href=/a/><p>"))


@pytest.mark.parametrize(
    ("value", "message"),
    [
        ({"a": 1}, "handler handler returned one dict: yield it, or return a list"),
        (Follow(()), "returned one Follow"),
        ("text", "returned a value of type str: yield values, or return a list"),
        (3, "returned a value of type int"),
        ([3], "yielded 3 of type int"),
        ([None], "yielded None"),
        ([Follow("/", to="gone")], "to='gone': the crawler has no handler with this name"),
        ([Follow("/", to="handle")], "did you mean 'handler'"),
        ([Follow("/", to=print)], "to=print: this function is not a handler of the crawler"),
        ([Follow("/", priority=8)], "priority=8: pass a whole number from 0 to 7"),
        ([Request("/", priority=-1)], "priority=-1: pass a whole number from 0 to 7"),
        ([Request("/", priority=True)], "priority=True: pass a whole number from 0 to 7"),
        ([Follow("/", payload={"a": {1}})], r"payload\['a'\] is \{1\} of type set, .*: use a list"),
        ([Follow("/", payload="x" * 300_000)], "the payload has 300,002 bytes as JSON, the limit is 200,000"),
        ([Follow("/", payload="\ud800")], "the payload has text that is not valid Unicode"),
        ([Follow(BYTES)], "b'/' of type bytes is not a URL"),
        ([Request("ftp://x")], r"Request\('ftp://x'\): this is not an http or https URL"),
        ([{"x": "y" * 1_000_000}] * 11, "handler handler yielded more than 10 MB for one page"),
        ((Follow("/" + "x" * 100) for _ in range(1_000_000)), "yielded more than 10 MB"),
        ([Follow(["/"] * 60, payload="x" * 190_000)], "yielded more than 10 MB"),
        ((Follow([]) for _ in range(1_000_000)), "yielded more than 10 MB"),
        ([Follow("/", payload=float("inf"))], "payload is inf, which JSON does not have"),
    ],
)  # fmt: skip
def test_garbage_is_refused(value: object, message: str) -> None:
    with pytest.raises(InvalidYield, match=message):
        check(value)


def test_a_plain_function_that_returns_a_coroutine_is_refused() -> None:
    crawler = Crawler()

    def handler(page: Page) -> Any:
        return yields_in_the_loop(page)

    crawler.default()(handler)
    with pytest.raises(InvalidYield, match="returned async_generator: define it with `async def`"):
        crawler.check(Page.from_html(""))


def test_links_are_relative_to_the_page() -> None:
    found = check([Follow(["x", "mailto:y", "//b.example"]), Request("y?", any_host=True)])
    assert [request.url for request in found.requests] == [
        "https://example.com/a/x", "https://b.example/", "https://example.com/a/y?",
    ]  # fmt: skip
    assert [request.any_host for request in found.requests] == [False, False, True]
    ends = check([Follow("x", priority=0, payload=0), Request("y", priority=7), Follow("z", payload="x" * 199_998)])
    assert [(request.priority, request.payload) for request in ends.requests[:2]] == [(0, 0), (7, None)]
    assert len(ends.requests) == 3


def test_a_value_after_the_end_of_the_handler_is_refused() -> None:
    """A generator in a thread ends when its page is given up."""
    crawler = Crawler()
    crawler.default()(yields)
    handler = crawler.choose("https://example.com/")
    assert handler is not None
    abandoned = Collector(Page.from_html(""), handler, find_name=crawler.find_name, classes={})
    abandoned.add({"n": 1})
    abandoned.is_closed = True
    with pytest.raises(InvalidYield, match="the handler was abandoned"):
        abandoned.add({"n": 2})
    assert len(abandoned.lines) == 1
    assert abandoned.values == []


def test_ids_name_the_page_the_visit_and_the_ordinal() -> None:
    crawler = Crawler()
    crawler.default(version=3)(yields)
    handler = crawler.choose("https://example.com/")
    assert handler is not None

    def ids(page: Page) -> list[str]:
        found = Collector(page, handler, find_name=crawler.find_name, classes={})
        found.collect(handler.function(page))
        lines = [line.decode() for _, line in found.lines]
        assert all('"_handler":"yields","_version":3' in line for line in lines)
        assert all('"_fetched_at":"2030-01-01T00:00:00.000000Z"' in line for line in lines[:1])
        return [match[1] for line in lines if (match := re.search('"_id":"(.*?)"', line))]

    first = ids(Page.from_html(""))
    assert [one.rpartition("-")[2] for one in first] == ["0", "1"]
    assert ids(Page.from_html("other")) == first  # the same visit
    assert not set(first) & set(ids(Page.from_html("", url="https://example.com/b")))


def test_another_visit_has_other_ids() -> None:
    made = {collector.make_visit_id("https://a.example/", f"2030-01-0{day}T00:00:00.000000Z") for day in range(1, 9)}
    assert len(made) == 8


def test_two_classes_of_one_name_are_refused() -> None:
    other: Any = dataclass(type("Book", (), {"__annotations__": {"isbn": str}, "__module__": "elsewhere"}))
    local: Any = [dataclass(type("Local", (), {"__annotations__": {"n": int}})) for _ in range(2)]  # as in a function
    assert len(check([one(1) for one in local]).items) == 2
    with pytest.raises(InvalidYield, match=r"books\.Book and elsewhere\.Book would be written to the same output"):
        check([books.Book("x", None), other("y")])


def test_the_limit_counts_all_that_a_handler_yields() -> None:
    assert len(check([{"x": "y" * (MAX_BYTES // 3)}] * 2).items) == 2


# registration


def takes_two(page: Page, other: int) -> None: ...


def has_a_wrong_selector(page: Page) -> Iterator[Any]:
    yield {"title": page.css("h1").css("b").text()}
    yield {"price": page.css("p").css("b[").text()}


def selects_elsewhere(page: Page) -> Iterator[Any]:
    other: Any = None
    yield {"x": other.css("h1::text"), "y": page.css("h1").text()}


def test_a_wrong_signature_is_refused() -> None:
    with pytest.raises(UsageError, match=r"takes_two \(.*test_crawler.py:\d+\): its .* \(page: .* one, the page"):
        Crawler().default()(takes_two)  # type: ignore[type-var]


def test_a_selector_with_a_mistake_is_found_at_once() -> None:
    line = has_a_wrong_selector.__code__.co_firstlineno + 2
    with pytest.raises(InvalidSelector, match=rf"test_crawler.py:{line}\): 'b\[' is not a valid CSS selector"):
        Crawler().default()(has_a_wrong_selector)
    Crawler().default()(selects_elsewhere)


def test_registration_explains_mistakes() -> None:
    crawler = Crawler()
    crawler.default()(yields)
    crawler.error()(yields)
    with pytest.raises(UsageError, match="two default handlers: yields and yields_nothing"):
        crawler.default()(yields_nothing)
    with pytest.raises(UsageError, match="two error handlers"):
        crawler.error()(yields_nothing)
    with pytest.raises(UsageError, match=r"takes a pattern: write @crawler\.handler"):
        crawler.handler(yields)  # type: ignore[arg-type]
    with pytest.raises(UsageError, match=r"write @crawler\.default\(\)"):
        crawler.default(yields)  # type: ignore[arg-type]
    with pytest.raises(UsageError, match=r"write @crawler\.error\(\)"):
        crawler.error(yields)  # type: ignore[arg-type]
    with pytest.raises(UsageError, match="is not a regular expression"):
        crawler.handler("(")
    with pytest.raises(UsageError, match="cannot be a handler: decorate a function that has a name"):
        crawler.handler("x")(lambda page: None)
    with pytest.raises(UsageError, match="cannot be a handler"):
        crawler.handler("x")(Page)  # type: ignore[type-var]
    with pytest.raises(UsageError, match="links='all' of handler yields"):
        crawler.handler("x", links="all")(yields)  # type: ignore[arg-type]
    with pytest.raises(UsageError, match="pass a whole number or a text"):
        crawler.handler("x", version=1.5)(yields)  # type: ignore[arg-type]

    def yields_(page: Page) -> None: ...

    yields_.__name__ = "yields"
    with pytest.raises(UsageError, match="two handlers with the name yields"):
        crawler.handler("x")(yields_)


def test_each_kind_of_handler_has_a_version() -> None:
    crawler = Crawler()
    assert not crawler.follows_scope
    crawler.handler("/a", version=2)(yields)
    crawler.error(version="3b")(yields_nothing)
    crawler.handler("/b", links="scope")(returns_a_list)
    assert [(one.name, one.version, one.follows_scope) for one in crawler.handlers.values()] == [
        ("yields", 2, False), ("yields_nothing", "3b", False), ("returns_a_list", 1, True),
    ]  # fmt: skip
    assert crawler.follows_scope


def test_settings_of_a_crawler_are_checked() -> None:
    given = Crawler("https://a.example/", delay=2.0, exclude=["x"])
    assert given.settings == {"delay": 2.0, "exclude": ("x",), "sitemaps": False}
    given.default(links="scope")(yields)
    assert given.settings == {"delay": 2.0, "exclude": ("x",)}
    assert Crawler(sitemaps=True).settings == {"sitemaps": True}
    with pytest.raises(InvalidSetting, match="there is no such setting; did you mean delay"):
        Crawler(delai=2)
    with pytest.raises(InvalidSetting, match="--delay -1: must be at least 0"):
        Crawler(delay=-1)
    with pytest.raises(InvalidSetting, match=r"Crawler\(zzz=…\): .* use one of .*, delay, (?!.*\b(?:run|items)\b)"):
        Crawler(zzz=2)
    with pytest.raises(InvalidSetting, match="there is no such setting"):
        Crawler(run="a:b")
    with pytest.raises(InvalidSetting, match="handler_timeout=0: must be above 0"):
        Crawler(handler_timeout=0)
    with pytest.raises(InvalidSetting, match="page_memory=0: must be above 0"):
        Crawler(page_memory=0)


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"delay": "1s"}, r"Crawler\(delay='1s'\): pass seconds as a number, such as 1\.5"),
        ({"delay": float("nan")}, r"Crawler\(delay=nan\): pass seconds as a number"),
        ({"timeout": None}, r"Crawler\(timeout=None\): pass seconds as a number"),
        ({"max_pages": "3"}, r"Crawler\(max_pages='3'\): pass a whole number"),
        ({"max_pages": True}, r"Crawler\(max_pages=True\): pass a whole number"),
        ({"max_size": 1e6}, r"Crawler\(max_size=1000000\.0\): pass bytes as a whole number"),
        ({"robots": "no"}, r"Crawler\(robots='no'\): pass True or False"),
        ({"scope": None}, r"Crawler\(scope=None\): pass a text"),
        ({"include": "/catalogue/"}, r"Crawler\(include='/catalogue/'\): pass a list of texts"),
        ({"include": [3]}, r"Crawler\(include=\(3,\)\): pass a list of texts"),
        ({"handler_timeout": "3s"}, r"handler_timeout='3s': pass a number"),
        ({"start_timeout": None}, r"start_timeout=None: pass a number"),
    ],
)
def test_a_setting_of_the_wrong_type_is_explained(given: dict[str, Any], message: str) -> None:
    with pytest.raises(InvalidSetting, match=message):
        Crawler(**given)


def test_settings_may_have_the_types_of_python() -> None:
    given = Crawler(out=Path("shop"), delay=2, max_pages=None, include=["/a"], robots=False, sitemaps=True)
    assert given.settings == {
        "out": "shop", "delay": 2, "max_pages": None, "include": ("/a",), "robots": False, "sitemaps": True,
    }  # fmt: skip


def test_seeds_of_the_wrong_type_are_explained() -> None:
    with pytest.raises(UsageError, match=r"the seed \['https://a\.example/'\] is of type list: pass each URL as"):
        Crawler(["https://a.example/"])  # type: ignore[arg-type]


def test_check_says_that_a_handler_lacks_the_state() -> None:
    @asynccontextmanager
    async def open_rates() -> AsyncIterator[dict[str, float]]:
        yield {"£": 1.15}

    crawler = Crawler(lifespan=open_rates)

    @crawler.default()
    async def convert(page: Page) -> list[dict[str, float]]:
        return [{"euros": page.state["£"]}]

    with pytest.raises(TypeError) as failed:
        crawler.check(Page.from_html(""))
    assert failed.value.__context__ is None
    assert "pass what it yields, with check(page, state=…)" in failed.value.__notes__[0]
    assert crawler.check(Page.from_html(""), state={"£": 1.0}).items == [{"euros": 1.0}]
    with pytest.raises(KeyError) as failed_with_state:
        crawler.check(Page.from_html(""), state={})
    assert not hasattr(failed_with_state.value, "__notes__")


def test_what_the_name_of_a_crawler_may_stand_for() -> None:
    assert make_crawler(books.crawler, name="books:crawler") is books.crawler
    bare = make_crawler(yields, name="books:yields")
    assert (list(bare.handlers), bare.follows_scope) == (["yields"], True)
    with pytest.raises(UsageError, match=r"has no handler; register one with @crawler\.default"):
        make_crawler(Crawler(), name="books:crawler")
    with pytest.raises(UsageError, match="books:price is of type int: name a Crawler or a function"):
        make_crawler(3, name="books:price")
    with pytest.raises(UsageError, match="books:Book is of type type: name a Crawler or a function"):
        make_crawler(books.Book, name="books:Book")
