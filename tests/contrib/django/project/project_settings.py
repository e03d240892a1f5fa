"""Settings that the tests choose by environment variables."""

import os
from pathlib import Path
from typing import Any

import django

from mita import Retry

HAS_TASKS = django.VERSION >= (6, 0)
FOLDER = Path(os.environ.get("SHOP_FOLDER", "."))
SECRET_KEY = "for tests"
USE_TZ = True
TEST_RUNNER = "shop.runner.Runner"
TIME_ZONE = "UTC"
DEFAULT_AUTO_FIELD = "django.db.models.BigAutoField"
INSTALLED_APPS = ["mita.contrib.django", "shop"]
DATABASES: dict[str, dict[str, Any]]
if "SHOP_POSTGRES_HOST" in os.environ:
    DATABASES = {
        "default": {
            "ENGINE": "django.db.backends.postgresql",
            "NAME": os.environ["SHOP_POSTGRES_NAME"],
            "USER": "postgres",
            "HOST": os.environ["SHOP_POSTGRES_HOST"],
            "CONN_MAX_AGE": None,
            "CONN_HEALTH_CHECKS": True,
        }
    }
else:
    DATABASES = {
        "default": {
            "ENGINE": "django.db.backends.sqlite3",
            "NAME": FOLDER / "db.sqlite3",
            "OPTIONS": {"timeout": 20},
            "TEST": {"NAME": FOLDER / "test.sqlite3"},  # Django never closes one in memory
        }
    }
MITA: dict[str, Any] = {"RETRY": Retry(max_retries=1, waits=(0.0,)), "IMPORTS": ["shop.receivers"]}
if "SHOP_MITA_URL" in os.environ:
    MITA["URL"] = os.environ["SHOP_MITA_URL"]
    MITA["OUTBOX"] = False
if HAS_TASKS:
    TASKS = {
        "default": {"BACKEND": "mita.contrib.django.MitaBackend", "QUEUES": []},
        "few": {
            "BACKEND": "mita.contrib.django.MitaBackend",
            "QUEUES": [],
            "OPTIONS": {"retry": Retry(max_retries=0)},
        },
    }
    MITA["IMPORTS"].append("shop.django_tasks")
