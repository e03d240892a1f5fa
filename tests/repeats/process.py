"""A scheduler as another process: `python -m tests.repeats.process KIND URL NAMESPACE LOCK`."""

import asyncio
import logging
import signal
import sys

from mita.engine.scheduler_process import StandaloneScheduler
from mita.ports.store import Store
from mita.settings import SchedulerSettings

from .stores import handle


async def main(kind: str, url: str, namespace: str, lock: float) -> None:
    async def opened() -> Store:
        store = handle(kind, url, namespace)
        await store.open()
        return store

    scheduler = StandaloneScheduler(opened, SchedulerSettings(lock=lock, poll=0.05))
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, scheduler.stop)
    logging.info("it handles signals now")
    await scheduler.run()


if __name__ == "__main__":
    logging.basicConfig(level=logging.INFO, format="%(message)s", stream=sys.stdout)
    asyncio.run(main(sys.argv[1], sys.argv[2], sys.argv[3], float(sys.argv[4])))
