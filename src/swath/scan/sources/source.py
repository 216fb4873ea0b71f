"""Source: what every kind of source can be asked, and the steps that its answers are made of."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple, Protocol

from swath import Item
from swath.scan.finding import Finding
from swath.scan.path_keys import short

LANE = "scan"

Task = Mapping[str, Any]  # the payload of an item: what part of the source it stands for


class Trouble(NamedTuple):
    """Something that the source itself has found, and that no check is asked about."""

    key: str
    finding: Finding
    records: int = 1  # 0 where it is about something else than a record


class Counted(NamedTuple):
    """Records that were looked at without being handed out, and bytes beyond what records say of themselves."""

    records: int = 0
    bytes: int = 0
    skipped: int = 0


# Records, each a Record or a FileRecord, come in lists, some at a time. An item is more work that was discovered.
Step = list[Any] | Trouble | Counted | Item


class Source(Protocol):
    """Everything here blocks and is called in threads, several at once. An exception means: try this item again."""

    @property
    def ahead(self) -> int:
        """Items that are worth reading while others are checked: some where reading is waiting for another machine or
        process, none where it would take the time away from the checks."""
        ...

    def state(self) -> Mapping[str, Any]:
        """What must not change between the runs of one scan, found out when it begins; raises UsageError when there is
        nothing that could be scanned."""
        ...

    def changed(self, before: Mapping[str, Any]) -> str | None:
        """Why a scan that began with this state cannot go on; None when it can."""
        ...

    def first(self, state: Mapping[str, Any]) -> Iterable[Item]:
        """The items that a scan begins with, the same ones for the same state."""
        ...

    def read(self, task: Task) -> Iterator[Step]:
        """What an item stands for."""
        ...

    def fetch(self, keys: Sequence[str]) -> Iterator[Step]:
        """Some records again, as they are now; nothing for those that are gone."""
        ...

    def close(self) -> None:
        """Let go of what is open."""
        ...

    def rest(self, key: str, finding: Mapping[str, Any]) -> Task | None:
        """What was never looked at because of a finding of the source's own; None for any other."""
        ...


def work(key: str, task: Task) -> Item:
    return Item(short(key), LANE, payload=task)
