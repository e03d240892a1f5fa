"""The threads of the SQLite store: one writes to the file, one reads from it."""
