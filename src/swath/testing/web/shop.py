"""A shop for tests of crawlers that take data out of pages: listings, details, a form, and a JSON API.

`list_books` returns what a correct spider finds. The layout is that of books.toscrape.com, which many tutorials use.
"""

import json
import re
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from html import escape
from urllib.parse import parse_qs, urlsplit

from swath.testing.web.expectation import ROBOTS, Expectation, Requirement
from swath.testing.web.filler_text import ENGLISH, EUROPEAN, JAPANESE, make_sentences, pick_paragraph, pick_phrase
from swath.testing.web.plan import DOMAIN, Plan
from swath.testing.web.scripted_response import NOT_FOUND, Request, ScriptedResponse, reply
from swath.testing.web.seeded_random import SeededRandom

BOOKS_PER_LISTING = 20
MAX_RESULTS = 10  # of a search
LISTING = Expectation(Requirement.MUST, "listing", 200)
DETAILS = Expectation(Requirement.MUST, "details", 200)
DATA = Expectation(Requirement.MAY, "data", 200)  # no page links to it: a spider may build these URLs

_DETAILS = re.compile(r"/catalogue/book_(\d+)/")
_LISTING = re.compile(r"/page-(\d+)")


@dataclass(frozen=True, slots=True)
class DemoBook:
    """A book of a shop: what its page shows."""

    url: str
    title: str
    price: str
    stock: int
    rating: str
    category: str
    description: str


def shop_host(number: int) -> str:
    return f"shop{number}.{DOMAIN}"


def make_book(plan: Plan, shop: int, number: int) -> DemoBook:
    """Return a book of a shop."""
    random = SeededRandom(plan.seed, "book", shop, number)
    language = random.pick((ENGLISH, EUROPEAN, JAPANESE))
    return DemoBook(
        url=plan.url(shop_host(shop), f"/catalogue/book_{number}/"),
        title=f"{pick_phrase(language, random)} & <{number}>",
        price=f"£{random.below(90) + 10}.{random.below(100):02}",
        stock=random.below(30),
        rating=random.pick(("One", "Two", "Three", "Four", "Five")),
        category=random.pick(("Travel", "Poetry", "Fiction")),
        description=pick_paragraph(make_sentences(plan.seed, language), random).strip(),
    )


def list_books(plan: Plan) -> Iterator[DemoBook]:
    """Yield every book of every shop."""
    for shop in range(plan.shops):
        for number in range(plan.books):
            yield make_book(plan, shop, number)


@dataclass(frozen=True)
class Shop:
    """A `Site` with books."""

    plan: Plan
    number: int

    counts_targets = False
    takes_posts = True

    @property
    def host(self) -> str:
        return shop_host(self.number)

    @property
    def _listings(self) -> int:
        return max(1, -(-self.plan.books // BOOKS_PER_LISTING))

    def respond(self, request: Request) -> ScriptedResponse:
        if request.method == "POST":
            return self._respond_to_post(request)
        parts = urlsplit(request.target)
        if request.target == "/":
            return self._reply_listing(1)
        if (listing := self._find_number(_LISTING, request.target)) is not None and 1 < listing <= self._listings:
            return self._reply_listing(listing)
        if (book := self._find_number(_DETAILS, request.target)) is not None and book < self.plan.books:
            return self._reply_book(book)
        if parts.path == "/search":
            return self._reply_search(parse_qs(parts.query).get("q", [""])[0])
        if parts.path == "/api/books":
            page = parse_qs(parts.query).get("page", ["1"])[0]
            return self._reply_json(int(page)) if page.isascii() and page.isdigit() else NOT_FOUND
        return NOT_FOUND

    def _respond_to_post(self, request: Request) -> ScriptedResponse:
        """Answer the search form and the API as a GET does, with the parameters from the body."""
        if request.target == "/search":
            return self._reply_search(parse_qs(request.body.decode(errors="replace")).get("q", [""])[0])
        if request.target != "/api/books":
            return NOT_FOUND
        try:
            asked = json.loads(request.body)
        except ValueError:
            asked = None
        page = asked.get("page") if isinstance(asked, dict) else None
        return self._reply_json(page) if isinstance(page, int) else reply(400, b"<p>Send a page as JSON.</p>")

    def expectation(self, target: str) -> Expectation | None:
        if target == "/robots.txt":
            return ROBOTS
        if urlsplit(target).path in ("/search", "/api/books"):
            return DATA
        return dict(self.expectations()).get(target)

    def expectations(self) -> Iterator[tuple[str, Expectation]]:
        yield "/robots.txt", ROBOTS
        for listing in range(1, self._listings + 1):
            yield self._get_listing(listing), LISTING
        for book in range(self.plan.books):
            yield f"/catalogue/book_{book}/", DETAILS

    def _find_number(self, pattern: re.Pattern[str], target: str) -> int | None:
        found = pattern.fullmatch(target)
        return None if found is None else int(found[1])

    def _get_listing(self, number: int) -> str:
        return "/" if number == 1 else f"/page-{number}"

    def _list_numbers(self, listing: int) -> range:
        first = (listing - 1) * BOOKS_PER_LISTING
        return range(first, min(first + BOOKS_PER_LISTING, self.plan.books))

    def _reply_listing(self, number: int) -> ScriptedResponse:
        books = [make_book(self.plan, self.number, book) for book in self._list_numbers(number)]
        following = f'<li class=next><a href="{self._get_listing(number + 1)}">next</a></li>'
        return _reply_page(
            f"Books, page {number}",
            '<form action="/search"><input name=q><button>Search</button></form>'
            + "".join(map(_format_listed, books))
            + f"<ul class=pager>{following if number < self._listings else ''}</ul>",
        )

    def _reply_book(self, number: int) -> ScriptedResponse:
        book = make_book(self.plan, self.number, number)
        others = [make_book(self.plan, self.number, (number + step) % self.plan.books) for step in (1, 7)]
        return _reply_page(
            book.title,
            f"<ul class=breadcrumb><li><a href=/>Home</a><li class=category>{book.category}</ul>"
            f"<div class=product_main><h1>{escape(book.title)}</h1><p class=price_color>{book.price}</p>"
            f"<p class=availability>In stock ({book.stock} available)</p>"
            f'<p class="star-rating {book.rating}"></p></div>'
            f"<div id=product_description><h2>Description</h2></div><p class=text>{escape(book.description)}</p>"
            + "".join(map(_format_listed, others)),
        )

    def _reply_search(self, text: str) -> ScriptedResponse:
        books = (make_book(self.plan, self.number, number) for number in range(self.plan.books))
        found = [book for book in books if text.lower() in book.title.lower()][:MAX_RESULTS]
        return _reply_page(f"Search: {text}", "".join(map(_format_listed, found)))

    def _reply_json(self, page: int) -> ScriptedResponse:
        books = [asdict(make_book(self.plan, self.number, number)) for number in self._list_numbers(page)]
        following = f"/api/books?page={page + 1}" if page < self._listings else None
        body = json.dumps({"books": books, "next": following}).encode()
        return reply(200, body, content_type="application/json")


def _format_listed(book: DemoBook) -> str:
    return f'<article class=product_pod><h3><a href="{urlsplit(book.url).path}">{escape(book.title)}</a></h3></article>'


def _reply_page(title: str, body: str) -> ScriptedResponse:
    return reply(200, f"<!doctype html><title>{escape(title)}</title><body>{body}".encode())
