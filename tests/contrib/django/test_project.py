"""`mita.contrib.django` in a project: the cases in project/shop, and manage.py."""

import itertools
import json
import os
import socket
from pathlib import Path

import httpx
import psycopg
import pytest

from tests.stores.postgres.shared import server
from tests.waiting import wait_until

from .projects import HAS_TASKS, manage, started

needs_tasks = pytest.mark.skipif(not HAS_TASKS, reason="Django 6 has tasks, and needs Python 3.12")
_numbers = itertools.count(1)


def _cases(folder: Path, *patterns: str, **more: str) -> None:
    for pattern in patterns:
        said = manage(folder, "test", "shop", "--pattern", f"cases_{pattern}.py", more=more)
        assert "\nOK" in said, said
        assert "Ran 0 tests" not in said, said


def _postgres() -> dict[str, str]:
    """A database that does not exist: Django makes one for its tests, called test_…"""
    running = server("pg18")
    name = f"shop_{os.getpid()}_{next(_numbers)}"
    host = psycopg.conninfo.conninfo_to_dict(running.url())["host"]
    return {
        "SHOP_POSTGRES_HOST": str(host),
        "SHOP_POSTGRES_NAME": name,
        "SHOP_MITA_URL": f"postgresql://postgres@/test_{name}?host={host}",
    }


def test_jobs_in_a_project_with_sqlite(tmp_path: Path) -> None:
    _cases(tmp_path, "[clpst]*" if HAS_TASKS else "[cls]*", SHOP_MITA_URL="memory://")


def test_jobs_in_a_project_with_postgresql(tmp_path: Path) -> None:
    _cases(tmp_path, "[clp]*" if HAS_TASKS else "[cl]*", **_postgres())


def test_manage_py_has_every_command_with_the_app_of_the_project(tmp_path: Path) -> None:
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    there = {"SHOP_FOLDER": str(tmp_path), "SHOP_MITA_URL": f"sqlite:///{tmp_path}/jobs.db"}
    manage(tmp_path, "mita", "enqueue", "greet", "Ada", more=there)
    # the processes that it starts find the project, wherever manage.py was started
    manage(elsewhere, "mita", "worker", "--until-empty", "--processes", "2", more=there)
    shown = manage(tmp_path, "mita", "--settings=project_settings", "jobs", "--json", more=there)
    assert [job["state"] for job in json.loads(shown)["jobs"]] == ["succeeded"]
    _served_by_manage(tmp_path, there)
    assert "did you mean 'jobs'?" in manage(tmp_path, "mita", "jobz", code=2, more=there)


def _served_by_manage(folder: Path, there: dict[str, str]) -> None:
    """`manage.py mita web` shows the jobs of the project."""
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    served = started(folder, "mita", "web", "--port", str(port), more=there)

    def page() -> str:
        assert served.poll() is None
        try:
            return httpx.get(f"http://127.0.0.1:{port}/jobs").text
        except httpx.ConnectError:
            return ""

    try:
        assert "greet" in wait_until(page, "the dashboard answers")
        served.terminate()
        assert served.wait(60) == 0
    finally:
        served.kill()
        served.wait()


ENQUEUE_AND_DIE = """
import os
import socket
from django.db import transaction
from django.tasks import default_task_backend as backend
from shop.django_tasks import add
try:
    with transaction.atomic():
        add.enqueue(10)
        raise LookupError
except LookupError:
    pass
with transaction.atomic():
    result = add.enqueue(1)
print(result.id, backend.get_result(result.id).status, flush=True)
os._exit(0)
"""
SHOW = """
from django.tasks import default_task_backend as backend
from mita.contrib.django import app
result = backend.get_result('{id}')
print(result.status, result.return_value, *[job.id for job in app.jobs_sync().jobs])
"""


@needs_tasks
def test_a_program_that_dies_after_the_commit_loses_no_task(tmp_path: Path) -> None:
    """The jobs of an SQLite project are in a file of their own. The outbox is in its database:
    manage.py migrate makes it, and each worker empties it."""
    manage(tmp_path, "migrate", "--run-syncdb")
    id, status = manage(tmp_path, "shell", "-v", "0", "-c", ENQUEUE_AND_DIE).split()
    assert status == "READY"
    manage(tmp_path, "mita", "worker", "--until-empty")
    shown = manage(tmp_path, "shell", "-v", "0", "-c", SHOW.format(id=id))
    assert shown.split() == ["SUCCESSFUL", "2", id], "what was rolled back left nothing"


ENQUEUE_STAY = """
from mita import Retry
from shop.django_tasks import stay
stay.using(mita={"retry": Retry(max_crashes=0)}).enqueue()
"""


@needs_tasks
def test_a_task_whose_worker_was_killed_is_finished_by_another(tmp_path: Path) -> None:
    told = tmp_path / "signals"
    more = {"SHOP_SIGNALS": str(told), "SHOP_MITA_URL": f"sqlite:///{tmp_path}/jobs.db"}

    def kinds() -> list[str]:
        lines = told.read_text().splitlines() if told.exists() else []
        return [json.loads(line)["kind"] for line in lines]

    manage(tmp_path, "shell", "-v", "0", "-c", ENQUEUE_STAY, more=more)
    worker = started(tmp_path, "mita", "worker", "--lease", "1", more=more)
    try:
        wait_until(lambda: "started" in kinds(), "the worker starts the task")
    finally:
        worker.kill()
        worker.wait()
    manage(tmp_path, "mita", "worker", "--until-empty", "--lease", "1", more=more)
    last = json.loads(told.read_text().splitlines()[-1])
    assert kinds() == ["enqueued", "started", "finished"]
    assert (last["status"], last["errors"]) == ("FAILED", ["TaskWorkerLost"])
