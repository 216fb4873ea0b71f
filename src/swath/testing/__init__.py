"""What tests need and swath does not: for now, a web to crawl. Nothing here imports the rest of swath."""
