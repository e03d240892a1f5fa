"""What `manage.py check` says about the settings of Mita."""

from typing import Any

from django.core.checks import CheckMessage, Error
from django.core.exceptions import ImproperlyConfigured

from .conf import project_app


def check_settings(app_configs: Any = None, **_: Any) -> list[CheckMessage]:  # noqa: ARG001
    """Whether the app of the project can be made."""
    try:
        project_app()
    except ImproperlyConfigured as error:
        return [Error(str(error), id="mita.E001")]
    return []
