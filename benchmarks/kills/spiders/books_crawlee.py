import asyncio

from crawlee import ConcurrencySettings
from crawlee.crawlers import ParselCrawler, ParselCrawlingContext
from crawlee.router import Router

router = Router[ParselCrawlingContext]()


@router.default_handler
async def listing(context: ParselCrawlingContext) -> None:
    await context.enqueue_links(selector="article h3 a", label="book")
    await context.enqueue_links(selector="li.next a")


@router.handler("book")
async def book(context: ParselCrawlingContext) -> None:
    page = context.selector
    await context.push_data(
        {
            "url": context.request.url,
            "title": page.css("h1::text").get(),
            "price": page.css(".price_color::text").get(),
            "stock": int(page.css(".availability::text").re_first(r"\d+")),
            "rating": page.css(".star-rating::attr(class)").get().split()[1],
            "category": page.css(".category::text").get(),
            "description": page.css("#product_description + p::text").get(),
        }
    )


async def main(url: str, **options: object) -> None:
    crawler = ParselCrawler(request_handler=router, respect_robots_txt_file=True, **options)
    await crawler.run([url])
    await crawler.export_data("books.json", ensure_ascii=False)


if __name__ == "__main__":
    asyncio.run(main("https://books.example/", concurrency_settings=ConcurrencySettings(max_tasks_per_minute=60)))
