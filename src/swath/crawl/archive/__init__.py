"""The archive: WARC records, page lists and the CDXJ index."""
