"""Translates code for Celery into code for Mita: `python -m mita.contrib.celery FILE…`. It needs
`pip install 'mita[celery]'`, but not Celery."""

from .translate import Note as Note
from .translate import Translation as Translation
from .translate import translate as translate
