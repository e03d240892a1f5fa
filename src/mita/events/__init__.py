"""Watching what happens: notes from engine and client, counted by a tally, told to listeners."""

from .bus import EventBus as EventBus
from .client_events import ClientEvents as ClientEvents
from .counters import Counters as Counters
from .listener import ListenerThread as ListenerThread
from .publisher import EventPublisher as EventPublisher
from .signals import Emit as Emit
from .signals import Signal as Signal
