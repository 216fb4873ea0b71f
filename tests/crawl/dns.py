"""A name server whose table changes during a test, and that can keep questions waiting."""

import asyncio

from swath.testing.web.network.dns_server import DNSAnswer, DNSCode, DNSQuestion, DNSServer

SERVFAIL = DNSCode.SERVFAIL


class NameServer(DNSServer):
    """`table` maps a name to (seconds, addresses); "hold" as the first address keeps the question waiting until
    `release`; an int is an error code; what is missing does not exist. `then` replaces an entry of the table after its
    first answer. A negative answer may be cached for `negative_seconds`."""

    def __init__(self, table: dict[str, tuple[int, list[str]] | int], *, negative_seconds: int = 0) -> None:
        super().__init__({})
        self.table = table
        self.then: dict[str, tuple[int, list[str]] | int] = {}
        self._negative_seconds = negative_seconds
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
            answer = DNSAnswer(code=DNSCode(found), negative_ttl_seconds=self._negative_seconds)
        else:
            seconds, addresses = found
            if addresses[:1] == ["hold"]:
                await self.release.wait()
                addresses = addresses[1:]
            answer = DNSAnswer(tuple(addresses), DNSCode.NO_ERROR, seconds, self._negative_seconds)
        if question.name in self.then:
            self.table[question.name] = self.then.pop(question.name)
        self.send(question, answer, client)
