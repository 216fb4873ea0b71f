"""Names of files as keys, and back: any bytes that a file system allows become printable text without loss."""

import os
import re
from hashlib import blake2b

MAX_KEY = 4_000  # bytes; what a frontier holds as a key is a good deal more, so that words can be put around it

_ESCAPED = re.compile(rb"%([0-9A-F]{2})")


def key_of(path: str) -> str:
    """A path as a key: what does not print, what is not UTF-8 and % itself are written as %XX."""
    if path.isprintable() and "%" not in path:
        return path
    return "".join(c if c.isprintable() and c != "%" else _escape(c) for c in path)


def path_of(key: str) -> str:
    """The path that a key was made of."""
    if "%" not in key:
        return key
    return os.fsdecode(_ESCAPED.sub(lambda match: bytes.fromhex(match[1].decode()), os.fsencode(key)))


def short(key: str) -> str:
    """A key that any frontier can hold: a long one is cut, and ends with a hash of the whole."""
    encoded = key.encode()
    if len(encoded) <= MAX_KEY:
        return key
    digest = blake2b(encoded, digest_size=16).hexdigest()
    return f"{encoded[:MAX_KEY].decode(errors='ignore')}…{digest}"


def _escape(character: str) -> str:
    return "".join(f"%{byte:02X}" for byte in os.fsencode(character))
