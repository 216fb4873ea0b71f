"""The head of a request."""

from dataclasses import dataclass

MAX_HEAD_BYTES = 1 << 16
MAX_BODY_BYTES = 1 << 20
END_OF_HEAD = b"\r\n\r\n"


@dataclass(frozen=True, slots=True)
class RequestHead:
    method: str
    host: str  # lowercase, without the default port
    target: str
    agent: str
    accept_encoding: str
    keep_alive: bool
    length: int = 0  # of the body


def parse_head(head: bytes, *, scheme: str) -> RequestHead | None:
    """Parse a request head; None if it is not an HTTP/1 request with a host."""
    first, *lines = head.decode("latin-1").split("\r\n")
    words = first.split(" ")
    if len(words) != 3 or not words[2].startswith("HTTP/1."):
        return None
    method, target, version = words
    fields = {}
    for line in lines:
        name, _, value = line.partition(":")
        fields[name.lower()] = value.strip()
    host = fields.get("host", "")
    if not target.startswith("/"):  # absolute form, as sent to a proxy
        _, _, rest = target.partition("://")
        host, slash, path = rest.partition("/")
        target = slash + path or "/"
    if not host:
        return None
    connection = fields.get("connection", "").lower()
    length = fields.get("content-length", "")
    return RequestHead(
        method=method,
        host=host.lower().removesuffix(":443" if scheme == "https" else ":80"),
        target=target,
        agent=fields.get("user-agent", ""),
        accept_encoding=fields.get("accept-encoding", "").lower(),
        keep_alive="close" not in connection and (version != "HTTP/1.0" or "keep-alive" in connection),
        length=int(length) if length.isascii() and length.isdigit() and len(length) < 10 else 0,
    )
