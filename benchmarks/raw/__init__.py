"""The raw loop of each engine: what a plain batched loop reaches that keeps none of Mita's
promises.

A job is put down when the next batch is taken: no lease, no token, no retry, no wake-up.
"""

from .common import BATCH_JOBS, PAYLOAD, Ask, Phase, Timer

RAW = ("sqlite", "redis", "postgres", "nats")

__all__ = ["BATCH_JOBS", "PAYLOAD", "RAW", "Ask", "Phase", "Timer"]
