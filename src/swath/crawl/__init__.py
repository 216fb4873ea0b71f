"""A polite web crawler on the frontier: settings, workspace and seeds, jobs and processes, and what happens to a page.

Start with `page_handler`. The folders are topics: http, robots, parse, urls, archive. The crawler imports the public
API of swath and the modules that the jobs share; only the command line imports the crawler.
"""
