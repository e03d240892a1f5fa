"""Priorities: every one of them has its place in records, keys and scores, also beside the data of
versions that knew only 0 to 9."""

import json
from itertools import pairwise
from random import Random

import msgspec
import pytest

from mita.model.job import PRIORITIES, State
from mita.model.outcome import Answer, PrioritiseJob, Settlement
from mita.model.time import MINUTE, When
from mita.stores.redis import RedisStore
from mita.stores.redis.scripting.scripts import assembled
from mita.testing.contract.clocks import FakeTicker

from .load import DONE, LEASE, QUEUE, jobs
from .servers import Server

WIDEST = range(-100, 101)
FIRST_DUE, LAST_DUE = 0, 2**45 - 1  # the year 3084
DRIVER = """\
-- include keys
-- include record
-- include state_indexes
local q, scores, record = queue_of('mita:{mail}'), {}, {}
for priority = -100, 100 do
  use_priority(q, priority)
  record.priority, scores[#scores + 1] = priority, {}
  for _, due in ipairs(cjson.decode(ARGV[1])) do
    record.due = due
    redis.call('ZADD', 'scores', waiting_score(record), 'x')
    table.insert(scores[#scores], redis.call('ZSCORE', 'scores', 'x'))
  end
end
local before = q.used
for priority = -100, 100 do use_priority(q, priority) end
return cjson.encode({ scores, used_priorities(q), before == q.used })
"""


def test_scores_and_the_list_of_used_priorities_are_exact(server: Server) -> None:
    """A score comes back from Redis as the same whole number. Those of 0 to 9 are as they were."""
    dues = [FIRST_DUE, 1, 1_700_000_000_000, LAST_DUE - 1, LAST_DUE]
    with server.client() as client:
        answer = client.eval(assembled(DRIVER), 0, json.dumps(dues))
        scores, used, is_noted_once = json.loads(answer)
    assert (used, is_noted_once) == (list(reversed(WIDEST)), True)
    by_priority = dict(zip(WIDEST, ([int(score) for score in row] for row in scores), strict=True))
    for priority in range(10):
        assert by_priority[priority] == [(9 - priority) * 2**48 + due for due in dues]
    in_order = [score for priority in reversed(WIDEST) for score in by_priority[priority]]
    assert all(one < other for one, other in pairwise(in_order))
    assert all(abs(score) < 2**53 for score in in_order)
    for row in by_priority.values():
        assert [score - row[0] for score in row] == dues


async def test_jobs_of_every_priority_start_in_order(store: RedisStore) -> None:
    """Also those that were not due when they came, and those that wait for a key."""
    shuffled = Random(1).sample(PRIORITIES, len(PRIORITIES))
    for more in ({}, {"resource": "gpu"}, {"fair": "a"}):
        waiting = {priority: jobs(1, priority=priority, **more)[0] for priority in shuffled}
        await store.enqueue(list(waiting.values()))
        found = await store.find([job.id for job in waiting.values()])
        assert [job and job.priority for job in found] == shuffled
        assert await store.ahead(waiting[PRIORITIES[0]].id) == len(PRIORITIES) - 1
        started: list[int] = []
        while claims := (await store.claim([QUEUE], 7, LEASE, "w1")).claims:
            assert [claim.id for claim in claims] == [waiting[c.priority].id for c in claims]
            started += [claim.priority for claim in claims]
            assert all(await store.settle([Settlement(claim, DONE) for claim in claims]))
        assert started == sorted(PRIORITIES, reverse=True)


async def test_a_job_gets_any_other_priority(store: RedisStore, clock: FakeTicker) -> None:
    ids = [job.id for job in jobs(len(PRIORITIES))]
    later = [
        msgspec.structs.replace(job, id=id, when=When(10))
        for job, id in zip(jobs(len(ids)), ids, strict=True)
    ]
    await store.enqueue(later)
    for id, priority in zip(ids, PRIORITIES, strict=True):
        assert await store.amend([id], PrioritiseJob(priority)) == [Answer.DONE]
    await clock.tick(10)
    claims = (await store.claim([QUEUE], 1000, LEASE, "w1")).claims
    assert [claim.priority for claim in claims] == sorted(PRIORITIES, reverse=True)
    assert [claim.id for claim in claims] == ids[::-1]


async def test_ageing_counts_every_priority(store: RedisStore, clock: FakeTicker) -> None:
    """The lowest job goes first as soon as it has waited long enough to rise above the highest."""
    store.ageing = MINUTE
    (low,), (high,) = jobs(1, priority=PRIORITIES[0]), jobs(1, priority=PRIORITIES[-1])
    await store.enqueue([low])
    await clock.tick((len(PRIORITIES) - 1) * MINUTE + 1)
    await store.enqueue([high])
    claims = (await store.claim([QUEUE], 10, LEASE, "w1")).claims
    assert [claim.id for claim in claims] == [low.id, high.id]


@pytest.mark.parametrize("lines", [b"", b"5", b"\xff\xfe"])
async def test_a_sweep_finds_priorities_that_were_lost(store: RedisStore, lines: bytes) -> None:
    """The list of the used priorities is one field; without it the jobs of a priority are never
    looked at."""
    waiting = jobs(2, priority=PRIORITIES[-1]) + jobs(1, priority=PRIORITIES[0], fair="a")
    await store.enqueue(waiting)
    key = f"{store.context.keys.queue(QUEUE)}:meta"
    await store.context.connection.command("HSET", key, "lines", lines)
    await store.context.connection.command("HDEL", key, "flow")
    await store.reap(10, LEASE, "w1")
    claims = (await store.claim([QUEUE], 10, LEASE, "w1")).claims
    assert [claim.id for claim in claims] == [job.id for job in waiting]


async def test_a_priority_that_no_version_has_is_unreadable(store: RedisStore) -> None:
    [job] = jobs(1)
    await store.enqueue([job])
    command, key = store.context.connection.command, f"{store.context.keys.queue(QUEUE)}:jobs"
    fixed = await command("HGET", key, job.id)
    await command("HSET", key, job.id, fixed[:19] + b"\x80" + fixed[20:])  # -128
    assert (await store.claim([QUEUE], 10, LEASE, "w1")).claims == []
    [found] = await store.find([job.id])
    assert found is not None
    assert found.state is State.FAILED
