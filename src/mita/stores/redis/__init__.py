"""Jobs on Redis 6.2 or later, Valkey, or a Redis Cluster."""

from .store import RedisStore as RedisStore
