"""Talking to a PostgreSQL server: connecting, errors, silence, statements, arrays, migrations."""
