"""Mita in a Django project: `INSTALLED_APPS = [..., "mita.contrib.django"]`.

`app` is the Mita app of the project. It is made from `settings.MITA` when it is first used:

    from mita.contrib.django import app

    @app.task
    def send_invoice(order: int) -> None: ...

`MitaBackend` is a backend for the `TASKS` setting of Django 6. `manage.py mita` has every command
of the command line."""

from typing import TYPE_CHECKING, Any

try:
    import django  # noqa: F401
except ModuleNotFoundError as error:
    raise ModuleNotFoundError(
        "mita.contrib.django needs Django: pip install 'mita[django]'", name=error.name
    ) from error

if TYPE_CHECKING:
    from mita import Mita

    from .backend import MitaBackend as MitaBackend

    app: Mita


def __getattr__(name: str) -> Any:
    # Django imports this package before its settings and its apps can be used
    if name == "app":
        from .conf import project_app

        return project_app()
    if name == "MitaBackend":
        from .backend import MitaBackend

        return MitaBackend
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
