"""robots.txt: fetch it, parse it, cache it per origin, and decide which pages may be fetched.

`gate` fetches robots.txt and follows its redirects; `cache` keeps the results and decides how many redirects to follow.
`parser` and `policy` import `urls` only; `cache` and `gate` use the fetching and pacing of the crawler.
"""
