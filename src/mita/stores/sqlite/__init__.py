"""The embedded store: one SQLite file, any number of processes, no server."""

from .store import SqliteStore as SqliteStore
