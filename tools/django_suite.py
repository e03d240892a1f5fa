"""Runs Django's own tests of task backends against ours: `make django-suite`.

The tests are in Django's source distribution, which is downloaded into build/. They are written for
the two backends that come with Django, one that keeps tasks and never runs them, and one that runs
them at once. Here Mita takes the place of both. Each test that does not pass is listed with its
reason; the exit code is 1 if there is none, or if a test with a reason passes."""

import logging
import subprocess
import sys
import tarfile
import threading
import unittest
from contextlib import suppress
from pathlib import Path
from typing import Any

import django
from django.conf import settings

BUILD = Path(__file__).resolve().parents[1] / "build" / "django-suite"

REASONS = {
    "ImmediateBackendTestCase.test_cannot_get_result": "asserts that results cannot be read: "
    "they can, from every process",
    "ImmediateBackendTestCase.test_cannot_refresh_result": "asserts that results cannot be "
    "refreshed: they can",
    "ImmediateBackendTestCase.test_cannot_pass_run_after": "asserts that tasks cannot be "
    "deferred: they can",
    "ImmediateBackendTestCase.test_throws_keyboard_interrupt": "asserts that a Ctrl-C in the task "
    "ends the caller: the task runs on a thread of a worker, where Python raises none",
    "DummyBackendTestCase.test_refresh_result": "changes the status in the list of the dummy "
    "backend: here the status is in the store, and only a run changes it",
    "DummyBackendTestCase.test_refresh_result_async": "the same, in async code",
}


def source() -> Path:
    """The folder with Django's tests, of the version that is installed. It is downloaded once."""
    version = django.__version__
    folder = BUILD / f"django-{version}"
    if not (folder / "tests" / "tasks").is_dir():
        BUILD.mkdir(parents=True, exist_ok=True)
        command = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps"]
        command += ["--no-binary", "Django", "--dest", str(BUILD), f"Django=={version}"]
        subprocess.run(command, check=True)
        with tarfile.open(next(BUILD.glob(f"*jango-{version}.tar.gz"))) as archive:
            archive.extractall(BUILD, filter="data")
    return folder / "tests"


def configure() -> None:
    """Settings with a store in memory. Django's two backends do not retry, and do not wait for a
    commit, so here Mita does neither."""
    from mita import Retry

    settings.configure(
        SECRET_KEY="test",
        USE_TZ=True,
        INSTALLED_APPS=["mita.contrib.django"],
        DATABASES={"default": {"ENGINE": "django.db.backends.sqlite3", "NAME": ":memory:"}},
        MITA={
            "URL": "memory://",
            "RETRY": Retry(max_retries=0),
            "WAIT_FOR_COMMIT": False,
        },
    )
    django.setup()


def replace_backends() -> None:
    """Let Django's tests find Mita where they look for the two backends of Django."""
    from django.tasks.backends import dummy, immediate

    from mita.contrib.django import MitaBackend, app
    from mita.contrib.django.signals import flush
    from mita.errors import UsageError

    ids: list[str] = []

    class KeepingBackend(MitaBackend):
        """Keeps tasks; nothing runs them. `results` and `clear` are for the tests."""

        @property
        def results(self) -> list[Any]:
            return [self.get_result(id) for id in ids]

        def enqueue(self, *args: Any, **kwargs: Any) -> Any:
            result = super().enqueue(*args, **kwargs)
            ids.append(result.id)
            return result

        def clear(self) -> None:
            for id in ids:
                with suppress(UsageError):  # a task whose transaction was rolled back
                    app.cancel_sync(id)
                    app.delete_sync(id)
            flush()
            ids.clear()

    class RunningBackend(MitaBackend):
        """Runs each task at once, with a worker in this process."""

        def enqueue(self, *args: Any, **kwargs: Any) -> Any:
            result = super().enqueue(*args, **kwargs)
            worker = app.worker(until_empty=True, schedule=False, poll=0.05)
            thread = threading.Thread(target=worker.run_sync)  # the caller may be async code
            thread.start()
            thread.join()
            flush()
            result.refresh()
            return result

    dummy.DummyBackend, immediate.ImmediateBackend = KeepingBackend, RunningBackend


class Recorder(unittest.TextTestResult):
    """Remembers which tests ran, and which did not pass."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.ran: list[str] = []

    def startTest(self, test: unittest.TestCase) -> None:  # noqa: N802
        self.ran.append(_name(test))
        super().startTest(test)

    def failed(self) -> dict[str, str]:
        """The last line of the error of each test that did not pass."""
        lines: dict[str, str] = {}
        for test, text in [*self.failures, *self.errors]:
            case = getattr(test, "test_case", test)
            lines[_name(case)] = text.strip().splitlines()[-1]
        return lines


def _name(test: Any) -> str:
    return f"{type(test).__name__}.{getattr(test, '_testMethodName', test)}"


def main() -> int:
    """Run the tests and print the outcome. Returns the exit code."""
    folder = source()
    configure()
    replace_backends()
    from django.test.runner import DiscoverRunner
    from django.test.utils import setup_test_environment

    setup_test_environment()
    sys.path.insert(0, str(folder))
    runner = DiscoverRunner(verbosity=0, interactive=False)
    databases = runner.setup_databases()
    suite = unittest.defaultTestLoader.discover(str(folder / "tasks"), top_level_dir=str(folder))
    logging.getLogger("mita").setLevel(logging.CRITICAL)  # many of these tasks fail on purpose
    runs: Any = unittest.TextTestRunner(resultclass=Recorder, verbosity=0, stream=_Nowhere())
    outcome = runs.run(suite)
    runner.teardown_databases(databases)
    failed = outcome.failed()
    passed = len(outcome.ran) - len(failed)
    print(f"Django {django.__version__}: {passed} of {len(outcome.ran)} tests of tests/tasks pass")
    for name, line in failed.items():
        print(f"  {name}\n    {REASONS.get(name) or f'NO REASON: {line}'}")
    stale = [name for name in REASONS if name in outcome.ran and name not in failed]
    for name in stale:
        print(f"  {name} passes: remove its reason")
    return 1 if stale or any(name not in REASONS for name in failed) else 0


class _Nowhere:
    """A stream that keeps nothing: `main` prints the outcome."""

    def write(self, _: str) -> None:
        pass

    def flush(self) -> None:
        pass


if __name__ == "__main__":
    sys.exit(main())
