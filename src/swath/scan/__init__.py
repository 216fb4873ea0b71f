"""Look at every record or file before, during and after a migration."""

from swath.scan.finding import Finding
from swath.scan.record import FileRecord, Record, Unreadable
from swath.scan.sources.table import RowRecord

__all__ = ["FileRecord", "Finding", "Record", "RowRecord", "Unreadable"]
