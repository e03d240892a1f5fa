"""The settings of the shop. The lines for Mita are marked."""

import os
from pathlib import Path

FOLDER = Path(os.environ.get("SHOP_FOLDER", Path(__file__).parent))
SECRET_KEY = os.environ.get("SECRET_KEY", "only for this example")
DEBUG = True
ALLOWED_HOSTS = ["*"]
ROOT_URLCONF = "orders.urls"
USE_TZ = True
DEFAULT_AUTO_FIELD = "django.db.models.BigAutoField"
DATABASES = {"default": {"ENGINE": "django.db.backends.sqlite3", "NAME": FOLDER / "db.sqlite3"}}
EMAIL_BACKEND = "django.core.mail.backends.filebased.EmailBackend"
EMAIL_FILE_PATH = FOLDER / "mails"
MEDIA_ROOT = FOLDER / "files"

INSTALLED_APPS = ["orders", "mita.contrib.django"]  # mita
TASKS = {"default": {"BACKEND": "mita.contrib.django.MitaBackend"}}  # mita
