"""robots.txt: parse it, decide what it allows, remember it per origin."""
