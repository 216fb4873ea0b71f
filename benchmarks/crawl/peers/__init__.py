"""Other crawlers, each a program of its own: given seeds and the number of pages at once, it prints how many it got."""
