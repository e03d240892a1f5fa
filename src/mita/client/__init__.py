"""The methods of an app that work with jobs in the store."""

from .client import Client as Client
from .enqueue import JobSender as JobSender
from .enqueue import new_jobs as new_jobs
from .events import Events as Events
from .events import SyncEvents as SyncEvents
