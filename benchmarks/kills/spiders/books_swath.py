from collections.abc import Iterator
from dataclasses import dataclass

from swath.crawl import Crawler, Follow, Page

crawler = Crawler("https://books.example/", delay=1.0)


@dataclass
class Book:
    title: str
    price: str
    stock: int
    rating: str
    category: str
    description: str


@crawler.default()
def listing(page: Page) -> Iterator[Follow]:
    yield page.follow("article h3 a", to=book)
    yield page.follow("li.next a", to=listing)


@crawler.handler(r"/catalogue/")
def book(page: Page) -> Iterator[Book]:
    yield Book(
        title=page.css("h1").must_text(),
        price=page.css(".price_color").must_text(),
        stock=int(page.css(".availability").must_text().split("(")[1].split()[0]),
        rating=page.css(".star-rating").must_attr("class").split()[1],
        category=page.css(".category").must_text(),
        description=page.css("#product_description + p").must_text(),
    )
