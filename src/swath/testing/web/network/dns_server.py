"""A name server on loopback that answers from a table."""

import asyncio
import socket
import struct
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from enum import IntEnum
from types import TracebackType
from typing import Self

LOOPBACK = "127.0.0.1"
HEADER_BYTES = 12
RESPONSE_FLAGS = 0x8180  # a response, recursion desired and available
INTERNET = 1  # class of a record
START_OF_AUTHORITY = 6  # type of the record that says how long a negative answer may be cached
POINTER_TO_QUESTION = b"\xc0\x0c"  # instead of the name: it is the one at byte 12


class DNSCode(IntEnum):
    """The response code of an answer."""

    NO_ERROR = 0
    SERVFAIL = 2
    NXDOMAIN = 3


class RecordType(IntEnum):
    """The types of records that the server knows."""

    A = 1
    AAAA = 28


@dataclass(frozen=True, slots=True)
class DNSAnswer:
    """What the server says about a name. Without addresses and with NO_ERROR, the name exists and has none.

    A negative answer may be cached for `negative_ttl_seconds`; with 0 it does not say so.
    """

    addresses: tuple[str, ...] = ()
    code: DNSCode = DNSCode.NO_ERROR
    ttl_seconds: int = 60
    negative_ttl_seconds: int = 0


NXDOMAIN = DNSAnswer(code=DNSCode.NXDOMAIN)
SERVFAIL = DNSAnswer(code=DNSCode.SERVFAIL)


@dataclass(frozen=True, slots=True)
class DNSQuestion:
    """A question as it was received."""

    number: bytes
    name: str  # lowercase
    record_type: int
    section: bytes  # repeated in the response


class DNSServer(asyncio.DatagramProtocol):
    """Answers questions for A and AAAA records over UDP, until the `async with` block ends.

    `table` maps names to answers, None to no answer at all. Every other name does not exist (NXDOMAIN). `questions`
    counts the questions about each name.
    """

    def __init__(self, table: Mapping[str, DNSAnswer | None]) -> None:
        self._table = table
        self.questions: Counter[str] = Counter()
        self.port = 0
        self._transport: asyncio.DatagramTransport | None = None

    @property
    def address(self) -> str:
        """The value for `--dns-servers`."""
        return f"{LOOPBACK}:{self.port}"

    async def __aenter__(self) -> Self:
        loop = asyncio.get_running_loop()
        self._transport, _ = await loop.create_datagram_endpoint(lambda: self, local_addr=(LOOPBACK, 0))
        self.port = self._transport.get_extra_info("sockname")[1]
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._transport is not None:
            self._transport.close()

    def datagram_received(self, data: bytes, addr: tuple[str, int]) -> None:
        question = parse_question(data)
        if question is not None:
            self.questions[question.name] += 1
            self.answer(question, addr)

    def answer(self, question: DNSQuestion, client: tuple[str, int]) -> None:
        """Answer a question. A subclass may answer later, or something else."""
        found = self._table.get(question.name, NXDOMAIN)
        if found is not None:
            self.send(question, found, client)

    def send(self, question: DNSQuestion, answer: DNSAnswer, client: tuple[str, int]) -> None:
        if self._transport is not None and not self._transport.is_closing():
            self._transport.sendto(format_response(question, answer), client)


def parse_question(data: bytes) -> DNSQuestion | None:
    """Return the first question of a message; None if there is none."""
    labels, position = [], HEADER_BYTES
    try:
        while length := data[position]:
            labels.append(data[position + 1 : position + 1 + length].decode("ascii"))
            position += 1 + length
        (record_type,) = struct.unpack_from("!H", data, position + 1)
    except (IndexError, UnicodeDecodeError, struct.error):
        return None
    return DNSQuestion(data[:2], ".".join(labels).lower(), record_type, data[HEADER_BYTES : position + 5])


def format_response(question: DNSQuestion, answer: DNSAnswer) -> bytes:
    """Return the message that answers a question, with the addresses of the family that it asks for."""
    records = []
    for address in answer.addresses:
        family, record_type = (socket.AF_INET6, RecordType.AAAA) if ":" in address else (socket.AF_INET, RecordType.A)
        if question.record_type == record_type:
            packed = socket.inet_pton(family, address)
            head = struct.pack("!HHIH", record_type, INTERNET, answer.ttl_seconds, len(packed))
            records.append(POINTER_TO_QUESTION + head + packed)
    authorities = []
    if not records and (seconds := answer.negative_ttl_seconds):
        zone = b"\0\0" + struct.pack("!IIIII", 1, 60, 60, 60, seconds)
        authorities.append(b"\0" + struct.pack("!HHIH", START_OF_AUTHORITY, INTERNET, seconds, len(zone)) + zone)
    header = struct.pack("!HHHHH", RESPONSE_FLAGS | answer.code, 1, len(records), len(authorities), 0)
    return question.number + header + question.section + b"".join(records + authorities)
