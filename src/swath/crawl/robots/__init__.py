"""robots.txt: parse it, cache it per origin, and decide which pages may be fetched.

`parser` and `policy` import `urls` only; `cache` and `gate` use the fetching and pacing of the crawler.
"""
