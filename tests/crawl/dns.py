"""A name server whose table changes during a test, and that can keep questions waiting."""

import asyncio

from swath.testing.web.network.dns_server import DNSAnswer, DNSCode, DNSQuestion, DNSServer

SERVFAIL = DNSCode.SERVFAIL


class NameServer(DNSServer):
    """`table` maps a name to (seconds, addresses); "hold" as the first address keeps the question waiting until
    `release`; an int is an error code; what is missing does not exist."""

    def __init__(self, table: dict[str, tuple[int, list[str]] | int]) -> None:
        super().__init__({})
        self.table = table
        self.heard = asyncio.Event()
        self.release = asyncio.Event()
        self._waiting: set[asyncio.Task[None]] = set()

    def answer(self, question: DNSQuestion, client: tuple[str, int]) -> None:
        self.heard.set()
        task = asyncio.ensure_future(self._answer(question, client))
        self._waiting.add(task)
        task.add_done_callback(self._waiting.discard)

    async def _answer(self, question: DNSQuestion, client: tuple[str, int]) -> None:
        found = self.table.get(question.name, DNSCode.NXDOMAIN)
        if isinstance(found, int):
            self.send(question, DNSAnswer(code=DNSCode(found)), client)
            return
        seconds, addresses = found
        if addresses[:1] == ["hold"]:
            await self.release.wait()
            addresses = addresses[1:]
        self.send(question, DNSAnswer(tuple(addresses), ttl_seconds=seconds), client)
