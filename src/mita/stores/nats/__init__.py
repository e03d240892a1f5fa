"""Jobs on a NATS JetStream stream: one server, or a cluster that keeps several copies."""

from .address import parse as parse
from .store import NatsStore as NatsStore
