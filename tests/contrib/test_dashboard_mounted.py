"""The recipes of the guide about the dashboard in other applications: each is started as the guide
says, with the real framework and a real server, and asked as a browser does."""

import subprocess
import sys
from pathlib import Path

import httpx
import pytest

from mita import Mita

from .mounting import check_act, check_live, check_pages, enqueue_one, save_recipes, started

PREFIX = "/mita"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """An empty folder with the files of the guide, and a job in the store."""
    save_recipes(tmp_path)
    return tmp_path


@pytest.mark.parametrize("app", ["fast:web", "star:web", "flasks:web"])
def test_a_framework_shows_the_dashboard_below_a_path(app: str, folder: Path) -> None:
    enqueue_one(folder / "jobs.db")
    with started(app, folder) as address, httpx.Client(base_url=address) as client:
        if app != "star:web":
            assert client.get(f"{PREFIX}/").status_code == 403
            assert client.get("/enter").status_code == 200
        else:
            assert client.get("/").text == "the shop"
        if app != "flasks:web":  # there the rest of the addresses belongs to Flask
            assert client.get(PREFIX, follow_redirects=True).url.path == f"{PREFIX}/"
        check_pages(client, PREFIX)
        check_act(client, PREFIX, address)
        check_live(client, PREFIX, folder / "jobs.db")


def test_single_sign_on_by_a_header_of_the_proxy(folder: Path) -> None:
    enqueue_one(folder / "jobs.db")
    with started("sso:web", folder) as address:
        host = {"host": "ops.example.com"}
        with httpx.Client(base_url=address, headers=host) as client:
            assert client.get(f"{PREFIX}/").status_code == 403
        ada = {**host, "x-auth-user": "ada@example.com"}
        with httpx.Client(base_url=address, headers=ada) as client:
            check_pages(client, PREFIX)
            check_act(client, PREFIX, "https://ops.example.com")
            wrong = client.get(f"{PREFIX}/", headers={"host": "evil.example"})
            assert wrong.status_code == 421
        bo = {**host, "x-auth-user": "bo@example.com"}
        with httpx.Client(base_url=address, headers=bo) as client:
            assert "read only" in client.get(f"{PREFIX}/").text
    app = Mita(f"sqlite:///{folder}/jobs.db")
    [line] = app.audit_sync().entries
    app.close_sync()
    assert (line.who, line.via, line.what) == ("ada@example.com", "web", "pause")


MAKE_USERS = """
from django.core.management import call_command
call_command("migrate", verbosity=0)
from django.contrib.auth.models import User
User.objects.create_superuser("ada", password="tea and cake")
User.objects.create_user("bo", password="tea and cake")
"""


def test_staff_of_django_sees_the_dashboard(folder: Path) -> None:
    recipe = (folder / "tour" / "asgi.py").read_text()
    (folder / "tour" / "asgi.py").unlink()
    (folder / "tour").rmdir()
    for words in (
        ["-m", "django", "startproject", "tour", "."],
        ["manage.py", "shell", "-v", "0", "-c", MAKE_USERS],
    ):
        subprocess.run([sys.executable, *words], cwd=folder, check=True)
        if words[0] == "-m":
            with (folder / "tour" / "settings.py").open("a") as settings:
                settings.write('INSTALLED_APPS += ["mita.contrib.django"]\n')
    (folder / "tour" / "asgi.py").write_text(recipe)
    with started("tour.asgi:application", folder) as address:
        for user, status in (("bo", 303), ("ada", 200)):
            with httpx.Client(base_url=address) as client:
                refused = client.get(f"{PREFIX}/")
                assert refused.headers["location"] == "/admin/login/?next=/mita/"
                client.get("/admin/login/")
                form = {
                    "username": user,
                    "password": "tea and cake",
                    "csrfmiddlewaretoken": client.cookies["csrftoken"],
                    "next": f"{PREFIX}/",
                }
                client.post("/admin/login/", data=form)
                assert client.get(f"{PREFIX}/").status_code == status, user
                if status == 200:
                    enqueue_one(folder / "mita.db")
                    check_pages(client, PREFIX)
                    check_act(client, PREFIX, address)
                    check_live(client, PREFIX, folder / "mita.db")
