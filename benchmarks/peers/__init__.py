"""Other durable queues, and swath among them, at the same job: take in keys, then work them off with a handler that
does nothing. Each module drives one of them through its documented interface, in a process of its own."""
