"""The crawl benchmark: swath, its peers and a bare loop on one generated site (`make bench-crawl`)."""
