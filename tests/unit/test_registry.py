"""`swath.open` finds a backend by URL scheme, takes a store, and suggests the nearest name for a typo."""

from importlib.metadata import EntryPoint, EntryPoints
from typing import Any

import pytest

import swath
import swath.sync
from swath.backends import MemoryStore, Settings, registry
from tests.bench import nothing


class OtherBackend:
    """A backend of another package."""

    default_partitions = 3

    def check(self, url: swath.StoreURL) -> None:
        url.check_query({"fast"})

    async def open(
        self, url: swath.StoreURL, *, settings: Settings, create: bool, clock: swath.Clock | None
    ) -> swath.Store:
        return MemoryStore(settings, clock=clock)

    async def migrate(self, url: swath.StoreURL) -> list[str]:
        return [f"{url.host} {url.path}"]

    async def describe(self, url: swath.StoreURL) -> swath.StoreInfo:
        return swath.StoreInfo("other", 7, 8)

    async def delete(self, url: swath.StoreURL) -> None:
        pass


OTHER: swath.Backend = OtherBackend()


@pytest.fixture
def installed(monkeypatch: pytest.MonkeyPatch) -> None:
    entries = EntryPoints(
        [
            EntryPoint("other", f"{__name__}:OtherBackend", registry.ENTRY_POINTS),
            EntryPoint("ready", f"{__name__}:OTHER", registry.ENTRY_POINTS),
            EntryPoint("broken", "no_such_module:Backend", registry.ENTRY_POINTS),
        ]
    )
    monkeypatch.setattr(registry, "entry_points", lambda group: entries.select(group=group))


@pytest.mark.usefixtures("installed")
@pytest.mark.parametrize("scheme", ["other", "ready"])
async def test_an_entry_point_adds_a_scheme(scheme: str) -> None:
    """It names a class or an object."""
    async with swath.open(f"{scheme}://host/a%20b?fast=1") as frontier:
        assert await frontier.add(["a", "b"]) == 2
        assert len((await frontier.status()).partitions) == 3
    assert await swath.migrate(f"{scheme}://user:secret@host/a%20b") == ["host a b"]
    assert (await swath.describe(f"{scheme}://host")).format == 7


@pytest.mark.usefixtures("installed")
@pytest.mark.parametrize(
    ("url", "complaint"),
    [
        ("sqlit:///x.db", "scheme 'sqlit' (did you mean 'sqlite'?). The known schemes are broken, memory, other,"),
        ("othr:x", "(did you mean 'other'?)"),
        ("x.db", "'x.db' has no scheme, such as sqlite: use sqlite:///work.db"),
        ("other://h?fats=1", "unknown parameter 'fats' (did you mean 'fast'?); use fast"),
        ("sqlite:///x.db?synchronus=off", "unknown parameter 'synchronus' (did you mean 'synchronous'?)"),
    ],
)
def test_a_typo_in_a_url_gets_a_suggestion(url: str, complaint: str) -> None:
    with pytest.raises(swath.InvalidStoreURL) as error:
        swath.open(url)
    assert complaint in str(error.value)


@pytest.mark.usefixtures("installed")
def test_a_backend_that_cannot_be_imported_is_named() -> None:
    with pytest.raises(swath.MissingExtra, match=r"no_such_module:Backend .* cannot be imported: No module named"):
        swath.open("broken:x")


@pytest.mark.parametrize("open_frontier", [swath.open, swath.sync.open])
def test_an_unknown_option_gets_a_suggestion(open_frontier: Any) -> None:
    with pytest.raises(swath.InvalidSetting, match=r"no argument 'partition' \(did you mean 'partitions'\?\): use url"):
        open_frontier("memory:", partition=4)


async def test_a_store_is_used_as_it_is_and_closed() -> None:
    closed = []

    class Store(MemoryStore):
        async def close(self) -> None:
            closed.append(self)

    store = Store(Settings(partitions=2))
    async with swath.open(store=store, max_attempts=9) as frontier:
        assert await frontier.add("a") == 1
        assert store.settings.max_attempts == 9
    assert closed == [store]
    with pytest.raises(swath.InvalidSetting, match="this store was created with 2 partitions"):
        await swath.open(store=store, partitions=3)


@pytest.mark.parametrize("given", [{"url": "memory:"}, {"clock": swath.ManualClock()}])
def test_a_store_excludes_a_url_and_a_clock(given: dict[str, Any]) -> None:
    with pytest.raises(swath.UsageError, match="takes neither a URL nor a clock"):
        swath.open(store=MemoryStore(Settings(partitions=1)), **given)


async def test_a_store_in_memory_has_no_format_and_nothing_to_migrate() -> None:
    assert await swath.describe("memory:") == swath.StoreInfo("memory", 0, 0)
    assert await swath.migrate("memory:") == []
    async with swath.open("memory:") as frontier:
        with pytest.raises(swath.UsageError):
            await frontier.run(nothing, sink=lambda connection, rows: None)
