"""Every exception that swath raises. The branches of the tree follow what the caller does next.

SwathError
├── UsageError              fix the call
│   ├── InvalidItem         a key, lane, priority, payload … that a store cannot hold
│   ├── InvalidOutcome      an outcome that does not fit the claim it is settled with
│   ├── InvalidSetting      a setting that is unknown or out of range
│   ├── InvalidStoreURL     a store URL that swath cannot open
│   ├── WrongTransaction    `settle(connection=)` with a transaction that cannot carry it
│   └── MissingExtra        an optional part of swath that is not installed
├── LeaseLost               discard the results: another worker has the items
├── OutputConflict          discard the results: the output file has another length now
├── StoreUnavailable        wait and retry
├── StoreFull               free some space and retry
├── OutputFull              free some space and retry
└── SchemaError             run a command
    ├── SchemaOutdated      `swath db migrate`
    ├── SchemaTooNew        upgrade swath
    └── NotAFrontier        choose another file or schema
"""


class SwathError(Exception):
    """The base class of all errors that swath raises."""


class UsageError(SwathError, ValueError):
    """The call is invalid. Nothing was changed, except that `add` may have added the items before the invalid one;
    `added` says how many."""

    added = 0


class InvalidItem(UsageError):
    """A store cannot hold this item."""


class InvalidOutcome(UsageError):
    """The outcome does not fit the claim that it is settled with."""


class InvalidSetting(UsageError):
    """A setting is unknown or out of range."""


class InvalidStoreURL(UsageError):
    """swath cannot open this store URL."""


class WrongTransaction(UsageError):
    """The caller's transaction cannot carry a settlement."""


class MissingExtra(UsageError, ImportError):
    """An optional part of swath is not installed. The message names the `pip install` command."""


class LeaseLost(SwathError):
    """This worker no longer holds the claim. Another worker may have its items: discard the results (INV-2)."""


class OutputConflict(SwathError):
    """An output file does not have the length that the settlement expects. Nothing was settled (INV-5)."""


class StoreUnavailable(SwathError):
    """The store cannot be reached, or was busy for too long. It is not known whether the call took effect: retry."""


class StoreFull(SwathError):
    """The store has no space left. Nothing was changed."""


class OutputFull(SwathError):
    """An output file cannot grow because its disk is full. Nothing was written. A run waits and writes again."""


class SchemaError(SwathError):
    """This version of swath cannot use the store's format."""


class SchemaOutdated(SchemaError):
    """The store was written by an older swath. `swath db migrate` upgrades it."""


class SchemaTooNew(SchemaError):
    """The store was written by a newer swath. Upgrade swath."""


class NotAFrontier(SchemaError):
    """The file or schema does not belong to swath. It was not changed."""
