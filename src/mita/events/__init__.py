"""What happens to jobs: signals from the engine and the client are counted, handed to listeners of
this process, and published to other processes."""

from .bus import EventBus as EventBus
from .counters import Counters as Counters
from .listener import ListenerThread as ListenerThread
from .publisher import ClientEvents as ClientEvents
from .publisher import EventPublisher as EventPublisher
from .signals import Emit as Emit
from .signals import Signal as Signal
