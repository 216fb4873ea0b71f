"""Every exception swath raises. The branches follow the caller's next move.

SwathError
├── UsageError              fix the call
│   ├── InvalidItem         a key, lane, priority, payload … that cannot be stored
│   ├── InvalidOutcome      an outcome that does not fit the claim it is settled with
│   ├── InvalidSetting      a frontier or lane setting out of range, or an unknown one
│   ├── InvalidStoreURL     a store URL that names no store
│   ├── WrongTransaction    `settle(connection=)` on a transaction that cannot carry it
│   └── MissingExtra        a part of swath whose `pip install` has not been run
├── LeaseLost               drop this work: somebody else has it
├── OutputConflict          drop this work: the output file has moved on
├── StoreUnavailable        wait, and try again
├── StoreFull               make room, and try again
└── SchemaError             run a command
    ├── SchemaOutdated      `swath db migrate`
    ├── SchemaTooNew        upgrade swath
    └── NotAFrontier        the file or schema belongs to something else
"""


class SwathError(Exception):
    """What every error of swath descends from."""


class UsageError(SwathError, ValueError):
    """The call cannot be carried out as it stands; nothing was changed, except for what `added` counts: items that a
    long addition had taken in before it met the one that was wrong."""

    added = 0


class InvalidItem(UsageError):
    """An item that cannot be stored."""


class InvalidOutcome(UsageError):
    """An outcome that does not fit the claim it is settled with."""


class InvalidSetting(UsageError):
    """A setting that is unknown or out of range."""


class InvalidStoreURL(UsageError):
    """A store URL that names no store."""


class WrongTransaction(UsageError):
    """The caller's transaction cannot carry a settlement."""


class MissingExtra(UsageError, ImportError):
    """A part of swath that is not installed; the message names the `pip install` to run."""


class LeaseLost(SwathError):
    """The claim is no longer this worker's. Its items are somebody else's: discard the results (INV-2)."""


class OutputConflict(SwathError):
    """An output file is not as long as this settlement believes; nothing was settled (INV-5)."""


class StoreUnavailable(SwathError):
    """The store cannot be reached or is busy beyond its time limit. Nothing is known to have changed: try again."""


class StoreFull(SwathError):
    """The store has no room left. Nothing was changed."""


class SchemaError(SwathError):
    """The store's format is not the one this version of swath works with."""


class SchemaOutdated(SchemaError):
    """The store was written by an older swath: `swath db migrate` brings it up to date."""


class SchemaTooNew(SchemaError):
    """The store was written by a newer swath."""


class NotAFrontier(SchemaError):
    """The file or schema holds something that is not swath's; it was left alone."""
