"""A name server on loopback that answers from a table and counts what it is asked."""

import asyncio
import socket
import struct
from collections import Counter
from types import TracebackType
from typing import Self

NO_ERROR, SERVFAIL, NXDOMAIN = 0, 2, 3


class NameServer(asyncio.DatagramProtocol):
    """`table` maps a name to (seconds, addresses); "hold" as the only address keeps the question waiting until
    `release`; an int is an error code; what is missing does not exist. `then` replaces an entry of the table after its
    first answer. A negative answer may be cached for `negative_seconds`."""

    def __init__(self, table: dict[str, tuple[int, list[str]] | int], *, negative_seconds: int = 0) -> None:
        self.table = table
        self.then: dict[str, tuple[int, list[str]] | int] = {}
        self._negative_seconds = negative_seconds
        self.asked: Counter[str] = Counter()
        self.heard = asyncio.Event()
        self.release = asyncio.Event()
        self.address = ""
        self._waiting: set[asyncio.Task[None]] = set()

    async def __aenter__(self) -> Self:
        loop = asyncio.get_running_loop()
        self.transport, _ = await loop.create_datagram_endpoint(lambda: self, local_addr=("127.0.0.1", 0))
        self.address = f"127.0.0.1:{self.transport.get_extra_info('sockname')[1]}"
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.transport.close()

    def datagram_received(self, data: bytes, addr: tuple[str, int]) -> None:
        labels, position = [], 12
        while data[position]:
            labels.append(data[position + 1 : position + 1 + data[position]].decode())
            position += 1 + data[position]
        (kind,) = struct.unpack_from("!H", data, position + 1)
        name = ".".join(labels).lower()
        question = data[12 : position + 5]
        self.asked[name] += 1
        self.heard.set()
        task = asyncio.ensure_future(self._answer(data[:2], question, name, kind, addr))
        self._waiting.add(task)
        task.add_done_callback(self._waiting.discard)

    async def _answer(self, number: bytes, question: bytes, name: str, kind: int, addr: tuple[str, int]) -> None:
        found = self.table.get(name, NXDOMAIN)
        code, records = NO_ERROR, b""
        count = 0
        if isinstance(found, int):
            code = found
        else:
            seconds, addresses = found
            if "hold" in addresses:
                await self.release.wait()
            for address in addresses:
                if address == "hold":
                    continue
                family = socket.AF_INET6 if ":" in address else socket.AF_INET
                if kind == (28 if family == socket.AF_INET6 else 1):
                    packed = socket.inet_pton(family, address)
                    records += b"\xc0\x0c" + struct.pack("!HHIH", kind, 1, seconds, len(packed)) + packed
                    count += 1
        authority = 0
        if not count and self._negative_seconds:  # an SOA record says how long the answer may be cached
            seconds = self._negative_seconds
            data = b"\0\0" + struct.pack("!IIIII", 1, 60, 60, 60, seconds)
            records += b"\0" + struct.pack("!HHIH", 6, 1, seconds, len(data)) + data
            authority = 1
        if name in self.then:
            self.table[name] = self.then.pop(name)
        header = number + struct.pack("!HHHHH", 0x8180 | code, 1, count, authority, 0)
        self.transport.sendto(header + question + records, addr)
