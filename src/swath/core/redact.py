"""Passwords in URLs: where they stand, so that none is shown or logged."""

import re
from urllib.parse import unquote

MASK = "***"

# Before the host, also where a character that should have been escaped hides it from urllib; and in the query.
_PASSWORDS = (
    re.compile(r"((?<=//)[^:@/?#]*:)([^?#]*@[^/]*|[^?#]*|[^/]*)(?=@)"),
    re.compile(r"((?<=[?&])(?:ssl)?password=)([^&#]*)"),
)


def without_password(url: str) -> str:
    """A URL as it may be shown and logged."""
    for pattern in _PASSWORDS:
        url = pattern.sub(rf"\1{MASK}", url)
    return url


def passwords(url: str) -> set[str]:
    """The passwords of a URL, as they are written there and as they are meant."""
    found = {secret for pattern in _PASSWORDS for _, secret in pattern.findall(url)}
    return {spelt for secret in found for spelt in (secret, unquote(secret))} - {""}
