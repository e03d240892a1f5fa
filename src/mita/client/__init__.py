"""What callers do with jobs."""

from .client import Client as Client
from .enqueue import new_jobs as new_jobs
from .enqueue import unknown_task as unknown_task
from .events import Events as Events
from .events import SyncEvents as SyncEvents
