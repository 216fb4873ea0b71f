"""Source: the base class of all sources, and what they yield."""

from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple, TypedDict

from swath import Item
from swath.scan.finding import Finding
from swath.scan.path_keys import shorten_key

LANE = "scan"

Task = Mapping[str, Any]  # the payload of an item: which part of the source to read


class SourceFinding(NamedTuple):
    """A finding of the source itself, such as a line that is not JSON. `check` is not called for it."""

    key: str
    finding: Finding
    records: int = 1  # records to count; 0 if the finding is not about a record


class ReadCounts(NamedTuple):
    """Numbers of what was read besides the records that are yielded, and of what was found."""

    records: int = 0  # that were not yielded
    bytes: int = 0  # that no record counts
    skipped: int = 0  # entries that are not records
    compressed: int = 0  # bytes of a compressed file
    listed: int = 0  # entries of directories, except directories
    folders_found: int = 0
    folders_listed: int = 0


# A list of records (Record, RowRecord or FileRecord), a finding, counts, or an item with another part to read.
ReadStep = list[Any] | SourceFinding | ReadCounts | Item


class SourceSize(TypedDict, total=False):
    """The size of a source when its scan starts, as far as it is known. The share of the progress refers to it."""

    records: int
    about_records: int | None  # an estimate
    bytes: int
    compressed: int  # bytes of the compressed file
    first_key: tuple[Any, ...] | None
    last_key: tuple[Any, ...] | None
    text_key: bool
    listing: bool  # the size is known once every directory is listed


class Source(ABC):
    """Reads records. All methods may block; threads call them concurrently. After an exception, the item is retried."""

    @property
    def readahead(self) -> int:
        """How many items to read while others are checked. Useful if reading waits for another machine or process."""
        return 0

    @abstractmethod
    def snapshot(self) -> Mapping[str, Any]:
        """Return what must not change while a scan runs. Raise UsageError if the source cannot be read."""

    def measure(self, snapshot: Mapping[str, Any]) -> SourceSize:
        """Return what is known of the size of the source, without reading it."""
        return {}

    @abstractmethod
    def explain_change(self, before: Mapping[str, Any]) -> str | None:
        """Return why a scan that started with this snapshot cannot resume, or None if it can."""

    @abstractmethod
    def list_first_items(self, snapshot: Mapping[str, Any]) -> Iterable[Item]:
        """Return the items that a scan starts with. The same snapshot gives the same items."""

    @abstractmethod
    def read(self, task: Task) -> Iterator[ReadStep]:
        """Read the part of the source that an item stands for."""

    @abstractmethod
    def fetch(self, keys: Sequence[str]) -> Iterator[ReadStep]:
        """Read the records with these keys again. Skip those that are gone."""

    def find_unread_part(self, key: str, finding: Mapping[str, Any]) -> Task | None:
        """Return the part that was not read because of a finding of the source itself, or None."""
        return None

    def close(self) -> None:  # noqa: B027  most sources hold nothing open
        """Release files and connections."""


def make_item(key: str, task: Task) -> Item:
    return Item(shorten_key(key), LANE, payload=task)
