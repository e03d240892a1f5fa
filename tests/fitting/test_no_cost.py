"""A task without dependencies, of an app without middleware, does not pay for them."""

import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import FrameType
from typing import Annotated, Any

import pytest

from mita import Depends, Job, Mita
from mita.engine.inline import Inline
from mita.testing import lab

PARTS = {"injected.py", "generators.py", "loop_host.py", "shared_values.py", "injection.py"}


@contextmanager
def calls() -> Iterator[list[str]]:
    """The names of the files whose functions are called meanwhile, on any new thread too."""
    called: list[str] = []

    def note(frame: FrameType, event: str, _: Any) -> None:
        if event == "call":
            called.append(Path(frame.f_code.co_filename).name)

    before = sys.getprofile()
    threading.setprofile(note)
    sys.setprofile(note)
    try:
        yield called
    finally:
        sys.setprofile(before)
        threading.setprofile(None)


@pytest.mark.parametrize("kind", ["loop", "thread", "with job", "with dependency"])
async def test_its_runs_never_reach_the_code_of_dependencies(app: Mita, kind: str) -> None:
    if kind == "loop":

        @app.task
        async def task() -> None: ...

    elif kind == "thread":

        @app.task
        def task() -> None: ...

    elif kind == "with job":

        @app.task
        async def task(job: Job) -> None: ...

    else:

        @app.task
        def task(x: Annotated[str, Depends(lambda: "")]) -> None: ...

    async with lab(app) as it:
        await task.enqueue()
        inline: Inline = it._inline
        with calls() as called:
            assert (await inline.step()).run is not None
    assert "run.py" in called
    assert bool(PARTS & set(called)) is (kind == "with dependency")
