"""Find and mask secrets in URLs and in text, so that none is printed or logged."""

import re
from collections.abc import Iterable
from urllib.parse import unquote

MASK = "***"
MIN_SECRET_CHARS = 4  # a shorter secret may be part of any word

# A password before the host, even one with an unescaped character that confuses urllib, or in the query.
_PASSWORDS = (
    re.compile(r"((?<=//)[^:@/?#]*:)([^?#]*@[^/]*|[^?#]*|[^/]*)(?=@)"),
    re.compile(r"((?<=[?&])(?:ssl)?password=)([^&#]*)"),
)
# What a text may quote. Each pattern takes time in proportion to the text, because the text comes from outside.
_SECRETS = (
    re.compile(r"((?<=//)[^\s:@/?#]*:)[^\s/?#]*(?=@)"),
    re.compile(r"""(?i)(\b(?:ssl)?(?:password|passwd|pwd)\b["']?[ \t]?[=:][ \t]?)(?:'[^']*'|"[^"]*"|[^\s&;,"'#]+)"""),
    re.compile(r"""(?i)(authorization\b["']?[ \t]?[=:][ \t]?["']?)(?:(?:basic|bearer|digest)\b[ \t])?[^\s"',;]+"""),
    re.compile(r"(?i)(\bbearer[ \t])[\w.~+/=-]{8,}"),
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


def redact(text: str, *, secrets: Iterable[str] = ()) -> str:
    """Return a text with the passwords and credentials that it quotes replaced by `***`.

    These are passwords of URLs and of connection strings, Authorization headers, and the given `secrets`.
    """
    for secret in sorted(secrets, key=len, reverse=True):
        if len(secret) >= MIN_SECRET_CHARS:
            text = text.replace(secret, MASK)
    for pattern in _SECRETS:
        text = pattern.sub(rf"\1{MASK}", text)
    return text
