"""Find and mask the passwords in a URL, so that none is printed or logged."""

import re
from urllib.parse import unquote

MASK = "***"

# A password before the host, even one with an unescaped character that confuses urllib, or in the query.
_PASSWORDS = (
    re.compile(r"((?<=//)[^:@/?#]*:)([^?#]*@[^/]*|[^?#]*|[^/]*)(?=@)"),
    re.compile(r"((?<=[?&])(?:ssl)?password=)([^&#]*)"),
)


def mask_password(url: str) -> str:
    """Return a URL with its passwords replaced by `***`, to print or log it."""
    for pattern in _PASSWORDS:
        url = pattern.sub(rf"\1{MASK}", url)
    return url


def find_passwords(url: str) -> set[str]:
    """Return the passwords in a URL, both percent-encoded and decoded."""
    found = {secret for pattern in _PASSWORDS for _, secret in pattern.findall(url)}
    return {spelling for secret in found for spelling in (secret, unquote(secret))} - {""}
