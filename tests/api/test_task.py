"""A task behaves like its function, and has a name that no other function can have."""

import importlib
import inspect
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from mita import Job, Mita, UsageError
from mita.model.policy import JobOptions
from mita.model.time import When
from mita.rules.options import options_of

NOON = datetime(2030, 1, 1, 12, tzinfo=UTC)


@pytest.fixture
def app() -> Mita:
    return Mita("memory://")


async def greet(name: str, *, loud: bool = False) -> str:
    """Say hello."""
    return name.upper() if loud else name


def charge(job: Job, account: int) -> None:
    """Take the money."""


def test_a_task_keeps_name_docstring_module_and_signature(app: Mita) -> None:
    for fn in (greet, charge):
        task: Any = app.task(name=f"my-{fn.__name__}")(fn)
        assert (task.__name__, task.__qualname__, task.__module__) == (
            fn.__name__,
            fn.__qualname__,
            fn.__module__,
        )
        assert task.__doc__ == fn.__doc__
        assert task.__wrapped__ is fn
        assert inspect.signature(task) == inspect.signature(fn)
        assert inspect.unwrap(task) is fn
    nameless = app.task(name="nameless")(partial(greet, loud=True))
    assert nameless.__name__ == "nameless"


# ---------------------------------------------------------------- what is stored with a job


def test_a_plain_job_stores_no_options(app: Mita) -> None:
    task = app.task(greet)
    later = task.after(60).options(priority=9, queue="slow")
    for call in (task.call("Ada"), later.call("Ada"), task.at(NOON).call("Ada")):
        assert call.options.packed == b"\x80"


def test_limits_are_stored_in_seconds_and_none_takes_them_away(app: Mita) -> None:
    task = app.task(expires=timedelta(minutes=1), deadline=90, max_reschedules=3)(greet)
    assert (task.expires, task.deadline, task.max_reschedules) == (60, 90, 3)
    stored = options_of(task.call("Ada").options.packed)
    assert stored == JobOptions(expires=60, deadline=90, max_reschedules=3)
    none = task.options(expires=None, deadline=None, max_reschedules=None)
    assert none.call("Ada").options.packed == b"\x80"


def test_the_time_of_a_job_is_stored_beside_its_deadline_only(app: Mita) -> None:
    task = app.task(greet)
    at = When(at=round(NOON.timestamp() * 1000))
    for bound, when in (
        (task.options(deadline=90).after(60), When(60_000)),
        (task.after(60).options(deadline=90), When(60_000)),
        (task.options(deadline=90).after(60).at(NOON), at),
    ):
        assert options_of(bound.call("Ada").options.packed) == JobOptions(deadline=90, when=when)
    alone = task.options(expires=5).after(60).call("Ada")
    assert options_of(alone.options.packed) == JobOptions(expires=5)
    taken = task.options(deadline=90).after(60).options(deadline=None).call("Ada")
    assert taken.options.packed == b"\x80"


# ---------------------------------------------------------------- one name, one function


def registers(app: Mita, value: int) -> Any:
    @app.task(name="made")
    def made(number: int = value) -> int:
        return number + value

    return made


def registers_plain(app: Mita) -> Any:
    @app.task(name="made")
    def made() -> None: ...

    return made


def test_two_functions_of_one_factory_cannot_have_one_name(app: Mita) -> None:
    first = registers(app, 1000)
    with pytest.raises(UsageError, match=r"'made' is taken by .*other values around it.*name="):
        registers(app, 2000)
    assert app.tasks["made"] is first


def test_two_functions_of_one_name_in_one_module_are_refused(app: Mita, tmp_path: Path) -> None:
    says = r"'send' is taken by twice\.send \(line 3\): give twice\.send \(line 6\) another"
    with pytest.raises(UsageError, match=says), module(tmp_path, "twice", TWICE, app):
        pass


def test_the_same_function_with_other_options_is_refused(app: Mita) -> None:
    app.task(queue="a")(greet)
    with pytest.raises(UsageError, match=r"'greet' is taken.*the same function with other options"):
        app.task(queue="b")(greet)


def test_the_same_function_may_be_registered_again(app: Mita) -> None:
    app.task(queue="a")(greet)
    app.task(queue="a")(greet)
    registers_plain(app)
    registers_plain(app)
    assert set(app.tasks) == {"greet", "made"}


def test_a_reloaded_module_replaces_its_tasks_even_if_their_lines_changed(
    app: Mita, tmp_path: Path
) -> None:
    with module(tmp_path, "changing", ONCE, app) as imported:
        first = app.tasks["send"]
        assert first.queue == "mail"
        (tmp_path / "changing.py").write_text(
            "# a line\n# and another\n" + ONCE.replace("mail", "letters")
        )
        importlib.invalidate_caches()
        importlib.reload(imported)
        assert app.tasks["send"] is not first
        assert app.tasks["send"].queue == "letters"


def test_a_function_that_is_typed_again_in_a_shell_replaces_its_task(
    app: Mita, monkeypatch: pytest.MonkeyPatch
) -> None:
    def typed() -> Any:
        names: dict[str, Any] = {"app": app, "__name__": "__main__"}
        exec("@app.task\ndef send() -> None: ...", names)
        return names["send"]

    typed()
    with pytest.raises(UsageError, match=r"'send' is taken by __main__\.send"):
        typed()
    monkeypatch.setattr(sys, "ps1", ">>> ", raising=False)
    again = typed()
    assert app.tasks["send"] is again


ONCE = """\
from tests.api import test_task

@test_task.registering.task(queue="mail")
def send() -> None: ...
"""
TWICE = ONCE + ONCE.partition("\n")[2].replace('"mail"', '"mail", priority=3')
registering: Mita


@contextmanager
def module(folder: Path, name: str, text: str, app: Mita) -> Iterator[Any]:
    """Import a module with this text for the block; it registers its tasks with `app`."""
    global registering  # noqa: PLW0603
    registering = app
    (folder / f"{name}.py").write_text(text)
    sys.path.insert(0, str(folder))
    try:
        yield importlib.import_module(name)
    finally:
        sys.path.remove(str(folder))
        sys.modules.pop(name, None)
