"""Read a response: its type, character set, links, title and robots directives."""
