"""Turn the body of a response into a title, links and robots directives: charsets, HTML, feeds and sitemaps.

Modules here are pure functions; they import `http.content_coding`, `http.response` and `urls`.
"""
