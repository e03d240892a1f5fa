"""The raw loop of each engine: the speed of a plain batched loop without Mita's guarantees. A
job is deleted when the next batch is taken: no lease, no token, no retry, no wake-up."""

from .common import BATCH_JOBS, PAYLOAD, Ask, Phase, Timer

RAW = ("sqlite", "redis", "postgres", "nats")

__all__ = ["BATCH_JOBS", "PAYLOAD", "RAW", "Ask", "Phase", "Timer"]
