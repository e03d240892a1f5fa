"""Django's database connections around a run: checked before it, closed after it if they are too
old or broken, as Django does around a request."""

from collections.abc import Callable, Generator

from asgiref.sync import SyncToAsync
from django.db import close_old_connections, reset_queries

from mita import Job, Mita


def tend_connections(app: Mita) -> None:
    """Do this around every run of this app."""

    def django_connections(job: Job) -> Generator[None, None, None]:
        on_its_thread = _call_with_async_code if _is_async(app, job) else _call_here
        on_its_thread(_begin)
        try:
            yield
        finally:
            on_its_thread(close_old_connections)

    app.middleware(django_connections)


def _is_async(app: Mita, job: Job) -> bool:
    return app.find_task(job.task).is_async


def _begin() -> None:
    reset_queries()  # with DEBUG, Django keeps the text of all queries
    close_old_connections()


def _call_here(act: Callable[[], object]) -> None:
    act()


def _call_with_async_code(act: Callable[[], object]) -> None:
    """An async handler uses the ORM on the one thread on which `sync_to_async` calls sync code.
    That thread does one thing after the other, so this comes before what the handler does there,
    or after it, and the event loop need not wait."""
    SyncToAsync.single_thread_executor.submit(act)
