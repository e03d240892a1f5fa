"""What `settings.MITA` says, and where the jobs are if it says nothing."""

from typing import Any

from django.core.exceptions import ImproperlyConfigured
from django.core.management import call_command
from django.core.management.base import CommandError
from django.test import SimpleTestCase, override_settings

from mita.contrib.django.checks import check_settings
from mita.contrib.django.conf import _make, database_url, project_settings

POSTGRES = {"ENGINE": "django.db.backends.postgresql", "NAME": "shop"}


def _url(**database: Any) -> str:
    with override_settings(DATABASES={"default": {**POSTGRES, **database}}):
        return database_url("default")


class Settings(SimpleTestCase):
    """Each wrong setting is refused with its remedy."""

    def test_jobs_of_a_postgresql_project_are_in_its_own_database(self) -> None:
        self.assertEqual(_url(), "postgresql:///shop")
        whole = _url(USER="me@x", PASSWORD="p/w:", HOST="db", PORT=5433, NAME="my shop")
        self.assertEqual(whole, "postgresql://me%40x:p%2Fw%3A@db:5433/my%20shop")
        self.assertEqual(
            _url(HOST="/run/pg", PORT="5433"), "postgresql:///shop?host=%2Frun%2Fpg&port=5433"
        )
        self.assertEqual(_url(HOST="::1"), "postgresql://[::1]/shop")
        secure = _url(HOST="db", OPTIONS={"sslmode": "require", "pool": True, "isolation_level": 2})
        self.assertEqual(secure, "postgresql://db/shop?sslmode=require")

    def test_jobs_of_an_sqlite_project_are_beside_its_database(self) -> None:
        self.assertEqual(
            _url(ENGINE="django.db.backends.sqlite3", NAME="/srv/a b/db.sqlite3"),
            "sqlite:////srv/a%20b/mita.db",
        )

    def test_an_outbox_is_where_jobs_cannot_be_part_of_the_transaction(self) -> None:
        sqlite = {"ENGINE": "django.db.backends.sqlite3", "NAME": "/srv/db.sqlite3"}
        mysql = {"ENGINE": "django.db.backends.mysql", "NAME": "shop"}
        for database, given, has_one in (
            (POSTGRES, {}, False),
            (POSTGRES, {"URL": "postgresql://localhost:5432/shop?sslmode=disable"}, False),
            (POSTGRES, {"URL": "postgresql+psycopg://localhost/shop"}, False),
            (POSTGRES, {"URL": "postgresql://localhost/jobs"}, True),
            (POSTGRES, {"URL": "redis://localhost"}, True),
            (POSTGRES, {"URL": "redis://localhost", "OUTBOX": False}, False),
            (sqlite, {}, True),
            (sqlite, {"URL": "memory://"}, False),
            (mysql, {"URL": "redis://localhost"}, False),
        ):
            with (
                self.subTest(database=database, given=given),
                override_settings(DATABASES={"default": database}, MITA=given),
            ):
                self.assertEqual(_make(project_settings()).has_outbox, has_one)

    def test_another_database_needs_a_url(self) -> None:
        for database in ({"ENGINE": "django.db.backends.mysql"}, {"ENGINE": ""}):
            with self.assertRaisesMessage(ImproperlyConfigured, 'MITA = {"URL": "redis://'):
                _url(**database)

    def test_wrong_settings_are_refused(self) -> None:
        for wrong, says in (
            ({"ULR": "memory://"}, "MITA['ULR'] is not a setting, did you mean 'URL'?"),
            ({"keep": 3}, "did you mean 'KEEP'?"),
            (["memory://"], "MITA is a list: give a dict"),
            ({"IMPORTS": "shop.jobs"}, "give a list, ['shop.jobs']"),
            ({"DATABASE": "jobs"}, "MITA['DATABASE'] = 'jobs' is not in DATABASES"),
            ({"URL": "memory"}, "'memory' is not a store URL"),
            ({"APP": "shop.models.Order"}, "is a ModelBase, not a Mita app"),
            ({"APP": "shop.nowhere:app"}, "MITA['APP'] = 'shop.nowhere:app': "),
            ({"APP": "shop.models.Order", "URL": "memory://"}, "MITA['URL'] has no effect"),
        ):
            with (
                self.subTest(wrong=wrong),
                override_settings(MITA=wrong),
                self.assertRaisesMessage(ImproperlyConfigured, says),
            ):
                _make(project_settings())

    def test_manage_py_check_makes_the_app(self) -> None:
        self.assertEqual(check_settings(), [])

    def test_call_command_raises_what_went_wrong(self) -> None:
        with self.assertRaisesMessage(CommandError, "mita show nothing ended with"):
            call_command("mita", "show", "nothing")
