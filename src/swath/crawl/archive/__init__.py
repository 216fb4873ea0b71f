"""The archive of a crawl: WARC records, page lists and the CDXJ index.

Modules here import `http.response`, `urls`, `swath.files` and the public API of swath. `index` also lists the files of
the workspace.
"""
