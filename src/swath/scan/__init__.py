"""`swath scan`: check every row, line or file of a source, and report what is wrong, exactly once.

Imports the public API of `swath`, `swath.tables` and `swath.files`; only the command line imports it. Users import
`Finding` and the record classes from here.
"""

from swath.scan.finding import Finding
from swath.scan.record import FileRecord, Record, Unreadable
from swath.scan.sources.table import RowRecord

__all__ = ["FileRecord", "Finding", "Record", "RowRecord", "Unreadable"]
