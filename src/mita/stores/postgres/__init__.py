"""The PostgreSQL store: jobs beside your data, and in the same transaction with it."""

from .store import PostgresStore as PostgresStore
