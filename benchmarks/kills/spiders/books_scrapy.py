import scrapy


class Book(scrapy.Item):
    url = scrapy.Field()
    title = scrapy.Field()
    price = scrapy.Field()
    stock = scrapy.Field()
    rating = scrapy.Field()
    category = scrapy.Field()
    description = scrapy.Field()


class BooksSpider(scrapy.Spider):
    name = "books"
    custom_settings = {"ROBOTSTXT_OBEY": True, "DOWNLOAD_DELAY": 1.0}

    def __init__(self, url="https://books.example/", **arguments):
        super().__init__(**arguments)
        self.start_urls = [url]

    def parse(self, response):
        yield from response.follow_all(css="article h3 a", callback=self.parse_book)
        yield from response.follow_all(css="li.next a", callback=self.parse)

    def parse_book(self, response):
        yield Book(
            url=response.url,
            title=response.css("h1::text").get(),
            price=response.css(".price_color::text").get(),
            stock=int(response.css(".availability::text").re_first(r"\d+")),
            rating=response.css(".star-rating::attr(class)").get().split()[1],
            category=response.css(".category::text").get(),
            description=response.css("#product_description + p::text").get(),
        )
