"""One spider, written for swath, Scrapy and Crawlee. docs/coming-from-*.md shows these files."""
