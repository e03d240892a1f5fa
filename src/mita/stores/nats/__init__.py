"""Jobs on a NATS JetStream stream: on one server, or on a cluster that keeps several copies."""

from .store import NatsStore as NatsStore
from .store import parse as parse
