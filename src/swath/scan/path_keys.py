"""Convert paths to keys and back. Keys are printable; any bytes that a file system allows survive the round trip."""

import os
import re
from hashlib import blake2b

MAX_KEY = 4_000  # bytes; below the frontier's limit, to leave room for a prefix

_ESCAPED = re.compile(rb"%([0-9A-F]{2})")


def path_to_key(path: str) -> str:
    """Return a path as a key. Write % and anything that is not printable UTF-8 as %XX."""
    if path.isprintable() and "%" not in path:
        return path
    return "".join(c if c.isprintable() and c != "%" else _escape(c) for c in path)


def key_to_path(key: str) -> str:
    """Reverse `path_to_key`."""
    if "%" not in key:
        return key
    return os.fsdecode(_ESCAPED.sub(lambda match: bytes.fromhex(match[1].decode()), os.fsencode(key)))


def shorten_key(key: str) -> str:
    """Return a key that any frontier accepts. Truncate a long one and append its hash."""
    encoded = key.encode()
    if len(encoded) <= MAX_KEY:
        return key
    digest = blake2b(encoded, digest_size=16).hexdigest()
    return f"{encoded[:MAX_KEY].decode(errors='ignore')}…{digest}"


def _escape(character: str) -> str:
    return "".join(f"%{byte:02X}" for byte in os.fsencode(character))
