"""Runs Django's tests, and ends all sessions on the test database before it is deleted: workers
keep connections."""

from typing import Any

from django.db import connection
from django.test.runner import DiscoverRunner

from mita.contrib.django import app


class Runner(DiscoverRunner):
    """The `TEST_RUNNER` of this project."""

    def teardown_databases(self, *args: Any, **kwargs: Any) -> None:
        """Delete the test database."""
        app.close_sync()
        if connection.vendor == "postgresql":
            with connection.cursor() as cursor:
                cursor.execute(
                    "select pg_terminate_backend(pid) from pg_stat_activity "
                    "where datname = current_database() and pid <> pg_backend_pid()"
                )
        super().teardown_databases(*args, **kwargs)
