"""An app with durable sync handlers, on threads and in handler processes, which import it by
name."""

import contextlib
import os
import time
from pathlib import Path
from typing import Any

from msgspec import Struct

from mita import Job, Mita, Retry

app = Mita("memory://", retry=Retry(max_retries=1, waits=(0.0,), max_crashes=2))


class Approval(Struct):
    yes: bool
    by: str


def mark(folder: str, name: str) -> None:
    """Count in a file how often something happened."""
    with (Path(folder) / name).open("a") as file:
        file.write("x")


def create(folder: str, user: int) -> str:
    mark(folder, "created")
    return f"account {user}"


def onboard(job: Job, folder: str) -> str:
    mark(folder, "runs")
    account = job.step_sync("create", create, folder, user=7)
    job.sleep_sync(1)
    answer = job.wait_for_sync("approval", timeout=3600, type=Approval)
    return f"{account}: {answer.yes} by {answer.by}"


def time_out(job: Job) -> str:
    try:
        return str(job.wait_for_sync("never", timeout=0.05))
    except TimeoutError as error:
        return str(error)


def signalled_while_it_runs(job: Job, folder: str) -> Any:
    def wait_for_the_file() -> None:
        mark(folder, "running")
        while not (Path(folder) / "signalled").exists():
            time.sleep(0.01)

    job.step_sync("busy", wait_for_the_file)
    return job.wait_for_sync("go")


def killed_in_a_step(job: Job, folder: str) -> str:
    """The second step hangs in its first run. The test kills its process there."""
    first = job.step_sync("first", create, folder, 1)

    def second() -> str:
        mark(folder, "second")
        if (Path(folder) / "second").read_text() == "x":
            (Path(folder) / "pid").write_text(str(os.getpid()))
            time.sleep(600)
        return "done"

    return f"{first}, {job.step_sync('second', second)}"


def without_sync(job: Job) -> str:
    return "approved" if job.wait_for("approval") else "never"  # type: ignore[truthy-bool]


def catches_everything(job: Job) -> str:
    with contextlib.suppress(BaseException):
        job.sleep_sync(3600)
    return "too early"


def unstorable(job: Job) -> None:
    job.step_sync("open", object)


HANDLERS = (
    onboard,
    time_out,
    signalled_while_it_runs,
    killed_in_a_step,
    without_sync,
    catches_everything,
    unstorable,
)
TASKS = {
    where: {
        handler.__name__: app.task(name=f"{handler.__name__}.{where}", executor=where)(handler)
        for handler in HANDLERS
    }
    for where in ("thread", "process")
}
