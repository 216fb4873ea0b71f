"""The request head: all that the server reads."""

from dataclasses import dataclass

MAX_HEAD_BYTES = 1 << 16
END_OF_HEAD = b"\r\n\r\n"


@dataclass(frozen=True, slots=True)
class Request:
    method: str
    host: str  # in lower case, without the default port
    target: str
    agent: str
    accept_encoding: str
    keep_alive: bool


def parse(head: bytes, *, scheme: str) -> Request | None:
    """The request that a head asks; None if it is no HTTP/1 request with a host."""
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
    if not target.startswith("/"):  # as sent to a proxy
        _, _, rest = target.partition("://")
        host, slash, path = rest.partition("/")
        target = slash + path or "/"
    if not host:
        return None
    connection = fields.get("connection", "").lower()
    return Request(
        method=method,
        host=host.lower().removesuffix(":443" if scheme == "https" else ":80"),
        target=target,
        agent=fields.get("user-agent", ""),
        accept_encoding=fields.get("accept-encoding", "").lower(),
        keep_alive="close" not in connection and (version != "HTTP/1.0" or "keep-alive" in connection),
    )
