"""Processes that kill themselves at the worst moment: `python -m tests.repeats.dying WHAT KIND URL
NAMESPACE`."""

import asyncio
import os
import signal
import sys
from datetime import UTC, datetime
from typing import Any

import pytest

from mita import Mita, Retry
from mita.ports.store import Store

from .given import KEY
from .stores import handle

RANGE: dict[str, Any] = {
    "start": datetime(2020, 1, 1, tzinfo=UTC),
    "end": datetime(2020, 2, 1, tzinfo=UTC),
}


async def die(*_: object) -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def app_on(kind: str, url: str, namespace: str) -> Mita:
    """An app whose task `digest` always fails."""

    def made() -> Store:
        return handle(kind, url, namespace)

    app = Mita(store=made)

    @app.task(queue="mail", retry=Retry(max_retries=0))
    async def digest(day: str = "today") -> None:
        raise ValueError("no such list")

    return app


async def main(what: str, kind: str, url: str, namespace: str) -> None:
    app, patch = app_on(kind, url, namespace), pytest.MonkeyPatch()
    match what:
        case "after a fire":
            patch.setattr("mita.engine.scheduler.cancel_older", die)
            await app.scheduler(lock=0, poll=0.05).run()
        case "after a settle":
            patch.setattr("mita.engine.claim_loop.report_repeats", die)
            await app.worker(schedule=False, poll=0.05).run()
        case "in a backfill":
            patch.setattr("mita.client.backfill.FIRING_JOBS", 4)

            def progress(done: int, _: int) -> None:
                if done >= 8:
                    os.kill(os.getpid(), signal.SIGKILL)

            await app.repeats.backfill(KEY, **RANGE, progress=progress)


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))
