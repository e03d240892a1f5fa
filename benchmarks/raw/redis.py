"""A list of ids and a hash of jobs: one script deletes the last batch and takes the next, in one
round trip."""

from collections.abc import Iterable
from itertools import count
from typing import Any

from redis import Redis

from .common import BATCH_JOBS, PAYLOAD, Ask, Phase, Timer

_TURN = """
if #ARGV > 1 then redis.call('HDEL', KEYS[2], unpack(ARGV, 2)) end
local ids = redis.call('LPOP', KEYS[1], ARGV[1])
if not ids then return {{}, {}} end
return {ids, redis.call('HMGET', KEYS[2], unpack(ids))}
"""
_READY, _JOB = _KEYS = ["raw:ready", "raw:job"]


def run(ask: Ask) -> dict[str, Phase]:
    client: Any = Redis.from_url(ask.url)
    turn = client.register_script(_TURN)
    timer, numbers = Timer(ask), count()
    timer.singles(ask.seconds, lambda: _put(client, [next(numbers)]))
    client.delete(*_KEYS)
    timer.begin()
    for start in range(0, ask.jobs, BATCH_JOBS):
        _put(client, range(start, min(start + BATCH_JOBS, ask.jobs)))
    timer.end("bulk", ask.jobs)
    timer.begin()
    done, taken = 0, turn(_KEYS, [BATCH_JOBS])[0]
    while taken:
        done += len(taken)
        taken = turn(_KEYS, [BATCH_JOBS, *taken])[0]
    timer.end("drain", done)
    client.close()
    return timer.phases


def _put(client: Any, numbers: Iterable[int]) -> None:
    ids = [f"job-{i:015}" for i in numbers]
    both = client.pipeline(transaction=True)
    both.hset(_JOB, mapping=dict.fromkeys(ids, PAYLOAD))
    both.rpush(_READY, *ids)
    both.execute()
