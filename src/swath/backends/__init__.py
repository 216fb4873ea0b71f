"""The stores: memory, SQLite and PostgreSQL behind one seam, `swath.core.store.Store`."""
