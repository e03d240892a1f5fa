"""What callers do with jobs."""

from .client import Client as Client
from .events import Events as Events
from .events import SyncEvents as SyncEvents
from .intake import new_jobs as new_jobs
from .intake import unknown_task as unknown_task
