"""`mita.contrib.django` in a project: the cases in project/shop, and manage.py."""

import itertools
import json
import os
from pathlib import Path

import psycopg
import pytest

from tests.stores.postgres.shared import server

from .projects import HAS_TASKS, manage

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
    _cases(tmp_path, "[cs]*", SHOP_MITA_URL="memory://")


def test_jobs_in_a_project_with_postgresql(tmp_path: Path) -> None:
    _cases(tmp_path, "[cpt]*" if HAS_TASKS else "[c]*", **_postgres())


@pytest.mark.skipif(not HAS_TASKS, reason="Django 6 has tasks, and needs Python 3.12")
def test_tasks_of_django(tmp_path: Path) -> None:
    _cases(tmp_path, "[pt]*", SHOP_MITA_URL="memory://")


def test_manage_py_has_every_command_with_the_app_of_the_project(tmp_path: Path) -> None:
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    there = {"SHOP_FOLDER": str(tmp_path)}
    manage(tmp_path, "migrate", "--run-syncdb")
    enqueued = json.loads(manage(tmp_path, "mita", "enqueue", "pay", "7", "--json"))
    # the processes that it starts find the project, wherever manage.py was started
    manage(elsewhere, "mita", "worker", "--until-empty", "--processes", "2", more=there)
    shown = manage(
        tmp_path, "mita", "--settings=project_settings", "show", enqueued["id"], "--json"
    )
    assert json.loads(shown)["job"]["state"] == "succeeded"
    assert "worker" in manage(tmp_path, "help", "mita")
    wrong = manage(tmp_path, "mita", "jobz", code=2)
    assert "did you mean 'jobs'?" in wrong
