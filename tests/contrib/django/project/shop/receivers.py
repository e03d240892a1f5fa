"""Remembers which signals of tasks were sent, and writes them to a file if there is one."""

import json
import os
from pathlib import Path
from typing import Any

import django

SENT: list[tuple[str, Any]] = []


def _remember(kind: str, result: Any) -> None:
    SENT.append((kind, result))
    if "SHOP_SIGNALS" in os.environ:
        line = {
            "kind": kind,
            "id": result.id,
            "status": result.status,
            "workers": len(result.worker_ids),
            "errors": [error.exception_class.__name__ for error in result.errors],
        }
        with Path(os.environ["SHOP_SIGNALS"]).open("a") as file:
            file.write(json.dumps(line) + "\n")


def enqueued(task_result: Any, **_: Any) -> None:
    """Receive `task_enqueued`."""
    _remember("enqueued", task_result)


def started(task_result: Any, **_: Any) -> None:
    """Receive `task_started`."""
    _remember("started", task_result)


def finished(task_result: Any, **_: Any) -> None:
    """Receive `task_finished`."""
    _remember("finished", task_result)


if django.VERSION >= (6, 0):
    from django.tasks import signals

    signals.task_enqueued.connect(enqueued)
    signals.task_started.connect(started)
    signals.task_finished.connect(finished)
