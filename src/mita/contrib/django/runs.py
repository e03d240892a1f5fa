"""Django's database connections around a run: checked before it, closed after it if they are too
old or broken, as Django does around a request."""

from collections.abc import Callable, Generator
from functools import partial
from typing import Any

from asgiref.sync import SyncToAsync
from django.db import connections, reset_queries

from mita import Job, Mita


def tend_connections(app: Mita) -> None:
    """Do this around every run of this app."""

    def django_connections(job: Job) -> Generator[None, None, None]:
        on_its_thread = _call_with_async_code if app.find_task(job.task).is_async else _call_here
        kept: list[Any] = []
        on_its_thread(partial(_begin, kept))
        try:
            yield
        finally:
            on_its_thread(partial(_end, kept))

    app.middleware(django_connections)


def _begin(kept: list[Any]) -> None:
    """Close broken and old connections. Connections inside `atomic()` belong to a test, which
    runs the handler on its own thread; they are added to `kept`."""
    reset_queries()  # with DEBUG, Django keeps the text of all queries
    kept += [one for one in connections.all(initialized_only=True) if one.in_atomic_block]
    _end(kept)


def _end(kept: list[Any]) -> None:
    for connection in connections.all(initialized_only=True):
        if connection not in kept:
            connection.close_if_unusable_or_obsolete()


def _call_here(act: Callable[[], object]) -> None:
    act()


def _call_with_async_code(act: Callable[[], object]) -> None:
    """An async handler uses the ORM on the one thread on which `sync_to_async` calls sync code.
    That thread does one thing after the other, so this comes before what the handler does there,
    or after it, and the event loop need not wait."""
    SyncToAsync.single_thread_executor.submit(act)
