"""Fair shares: claims of many jobs at a time start the same jobs, in the same order, as the memory
store, which decides one start after the other."""

import os
from random import Random

import pytest

from mita.model.job import PRIORITIES, NewJob
from mita.model.outcome import Settlement
from mita.model.time import HOUR, MINUTE, NOW, Wait, When
from mita.stores.memory import MemoryStore
from mita.stores.redis import RedisStore
from mita.testing.contract.clocks import FakeTicker

from .load import DONE, QUEUE, jobs

SEED = int(os.environ.get("MITA_SEED", "1"))
STEPS = 120
LIMITS = (1, 3, 10, 30, 200)


def some_jobs(random: Random, groups: list[str | None], priorities: list[int]) -> list[NewJob]:
    """Jobs of one group, or of several: mostly plain ones, some with a weight, a key or a delay."""
    several, found = random.random() < 0.5, []
    group, weight = random.choice(groups), random.choice([1000, 1000, 1000, 2500])
    for _ in range(random.choice([1, 5, 40])):
        fair = random.choice(groups) if several else group
        when = When(random.choice([5, 50])) if random.random() < 0.1 else NOW
        key = "gpu" if random.random() < 0.05 else None
        priority = random.choice(priorities)
        more = {"fair": fair, "when": when, "resource": key, "priority": priority}
        found += jobs(1, weight=weight if fair else 1000, limit=2, **more)
    return found


@pytest.mark.parametrize("ageing", [None, MINUTE])
@pytest.mark.parametrize("priorities", [[5], [PRIORITIES[0], 5, PRIORITIES[-1]]])
@pytest.mark.parametrize("groups", [["a"], ["a", None], ["a", "b", "c", None], list("abcdefghijk")])
async def test_the_same_jobs_start_in_the_same_order_as_in_memory(
    own_store: RedisStore,
    clock: FakeTicker,
    groups: list[str | None],
    priorities: list[int],
    ageing: Wait | None,
) -> None:
    random, memory = Random(f"{SEED} {groups} {priorities} {ageing}"), MemoryStore(clock=clock)
    both: tuple[RedisStore | MemoryStore, ...] = (own_store, memory)
    for one in both:
        one.ageing = ageing
    await memory.open()
    started = 0
    for step in range(STEPS):
        if random.random() < 0.4:
            new = some_jobs(random, groups, priorities)
            for one in both:
                await one.enqueue(new)
        limit, ends = random.choice(LIMITS), random.random() < 0.8
        found = [await one.claim([QUEUE], limit, HOUR, "w1") for one in both]
        ours, theirs = ([claim.id for claim in result.claims] for result in found)
        assert ours == theirs, f"seed {SEED}, step {step}"
        assert found[0].again == found[1].again
        started += len(ours)
        for one, result in zip(both, found, strict=True):
            if ends:
                await one.settle([Settlement(claim, DONE) for claim in result.claims])
        await clock.tick(random.choice([0, 0, 1, 20]))
    assert started > STEPS
    await memory.close()
