"""What Django calls when it has loaded all apps."""

from typing import Any

from django.apps import AppConfig
from django.core import checks
from django.db import connections
from django.db.models.signals import post_migrate
from django.utils.module_loading import autodiscover_modules

from mita.contrib.outbox import create_statements

from .conf import project_app, project_settings


class MitaConfig(AppConfig):
    """`mita.contrib.django` in `INSTALLED_APPS`."""

    name = "mita.contrib.django"
    label = "mita"
    verbose_name = "Mita"

    def ready(self) -> None:
        """Import the module `tasks` of every installed app, and those of `MITA["IMPORTS"]`: a
        worker runs only tasks that it has imported."""
        from .checks import check_settings

        checks.register(check_settings)
        post_migrate.connect(create_outbox, sender=self)
        autodiscover_modules("tasks")
        for module in project_settings().imports:
            __import__(module)


def create_outbox(using: str, **_: Any) -> None:
    """After `manage.py migrate`: create the table of the outbox, if the project has one in this
    database. The statements change nothing if it is there."""
    if using == project_settings().database and project_app().has_outbox:
        with connections[using].cursor() as cursor:
            for statement in create_statements(connections[using].vendor):
                cursor.execute(statement)
