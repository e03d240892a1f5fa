"""An app whose tasks run in handler processes, which import it by name. Its providers write what
they do into the file `$MITA_TEST_LOG`."""

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Any

from mita import Depends, Job, Mita, Retry

app = Mita("memory://")
ONE_TRY = Retry(max_retries=0, max_crashes=0)


def log(text: str) -> None:
    with Path(os.environ["MITA_TEST_LOG"]).open("a") as file:
        file.write(f"{text}\n")


@app.lifespan
def model() -> Iterator[int]:
    log("load")
    yield os.getpid()
    log("unload")


def session(job: Job, model: Annotated[int, Depends(model)]) -> Iterator[str]:
    log(f"begin {job.task}")
    try:
        yield f"session of {model}"
    finally:
        log("end")


def shared() -> int:
    log("share")
    return os.getpid()


@app.middleware
def around(job: Job) -> Iterator[None]:
    log("around")
    yield


@app.task(executor="process", retry=ONE_TRY)
def crunch(
    number: int,
    session: Annotated[str, Depends(session)],
    one: Annotated[int, Depends(shared, scope="worker")],
) -> list[Any]:
    if number < 0:
        raise ValueError("less than nothing")
    return [os.getpid(), session, one, number]


@app.task(executor="process", retry=ONE_TRY)
def watch(job: Job, session: Annotated[str, Depends(session)]) -> None:
    log("watching")
    while not job.cancelled:
        pass


def broken() -> str:
    raise OSError("no model")


@app.task(executor="process", retry=ONE_TRY)
def fail(x: Annotated[str, Depends(broken)]) -> None: ...
