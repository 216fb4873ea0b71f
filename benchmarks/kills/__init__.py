"""The kill table: the same spider for swath, Scrapy and Crawlee, killed at the same moments (`make bench-kills`)."""
