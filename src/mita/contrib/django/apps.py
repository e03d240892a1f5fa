"""What Django calls when it has loaded all apps."""

from django.apps import AppConfig
from django.core import checks
from django.utils.module_loading import autodiscover_modules

from .conf import project_settings


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
        autodiscover_modules("tasks")
        for module in project_settings().imports:
            __import__(module)
