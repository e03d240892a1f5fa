"""A worker inside the process of a test."""

import threading
from collections.abc import Callable
from contextlib import suppress
from typing import Any

from mita.contrib.django import app


def run_jobs(**options: Any) -> None:
    """Run all jobs that are ready, with a worker on a thread of its own."""
    ends: dict[str, Any] = {} if "max_jobs" in options else {"until_empty": True}
    worker = app.worker(schedule=False, poll=0.02, **ends, **options)
    thread = threading.Thread(target=worker.run_sync)
    thread.start()
    thread.join(60)
    assert not thread.is_alive()
    with suppress(ModuleNotFoundError):  # Django 5 has no tasks
        from mita.contrib.django.signals import flush

        flush()


def while_running(act: Callable[[], Any], **options: Any) -> None:
    """Run jobs, and do this meanwhile."""
    thread = threading.Thread(target=run_jobs, kwargs=options)
    thread.start()
    try:
        act()
    finally:
        thread.join(60)
