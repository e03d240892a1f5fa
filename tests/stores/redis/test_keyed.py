"""Jobs with keys and rates that are started and ended many at a time do the same as jobs that are
started and ended one by one."""

import os
from collections.abc import AsyncIterator
from random import Random
from typing import Any

import pytest
from msgspec.structs import replace

from mita.model.gate import Gate, StoredLimit
from mita.model.job import Claim, NewJob, WhenBusy
from mita.model.outcome import CancelJob, PrioritiseJob, Settlement, Verdict
from mita.model.time import HOUR, NOW, When
from mita.rules.judge import success
from mita.stores.redis import RedisStore
from mita.testing.contract.clocks import FakeTicker

from .load import DONE, LEASE, QUEUE, jobs
from .servers import Server

SEED = int(os.environ.get("MITA_SEED", "1"))
STEPS = 80
LIMITS = (1, 3, 10, 30, 200)
KEPT = success(b"\xc0", HOUR)
OTHER_POLICIES = (WhenBusy.WAIT, WhenBusy.WAIT, *WhenBusy)
Both = tuple[RedisStore, RedisStore]


def limited(random: Random) -> dict[str, Any]:
    return {"resource": f"k{random.randrange(6)}", "limit": random.choice([1, 1, 2])}


def rated(random: Random) -> dict[str, Any]:
    return {"gates": (Gate("rate", None, random.choice([1000, 1000, 7000]), 20),)}


def mixed(random: Random) -> dict[str, Any]:
    """Everything that may have a key in common: also jobs that need the general path."""
    two = (Gate("k1", 2), Gate("rate", None, 1000, 20))
    return random.choice(
        [
            limited(random),
            rated(random),
            limited(random) | {"when_busy": random.choice(OTHER_POLICIES)},
            limited(random) | {"priority": random.choice([4, 6])},
            {"gates": two},
            {"gates": (Gate("k2", 3),)},
            {"resource": "k3", "fair": random.choice("ab")},
            {},
        ]
    )


def some_jobs(random: Random, fields: Any) -> list[NewJob]:
    found: list[NewJob] = []
    for _ in range(random.choice([1, 5, 40])):
        when = When(random.choice([5, 50])) if random.random() < 0.1 else NOW
        found += jobs(1, when=when, **fields(random))
    return found


async def change(both: Both, random: Random, running: list[Settlement], ids: list[str]) -> None:
    """What a person does meanwhile: hold a key, cancel a job that runs, move one that waits."""
    ends, key = random.choice([0, 30]), f"k{random.randrange(6)}"
    what = random.randrange(4)
    for one in both:
        if what == 0:
            await one.hold([QUEUE], key, When(ends))
        elif what == 1 and running:
            await one.amend([running[0].claim.id], CancelJob(0))
        elif what == 2:
            await one.amend(ids[-3:], PrioritiseJob(6))


@pytest.fixture
async def general(server: Server, clock: FakeTicker) -> AsyncIterator[RedisStore]:
    """A store that looks at one job after the other, because an operator has limited a key. Its
    claims are settled without their handles, so they are not grouped either."""
    store = RedisStore(server.url, namespace="general", clock=clock)
    await store.open()
    await store.limit([QUEUE], "another", StoredLimit(7))
    yield store
    await store.close()


@pytest.mark.parametrize("fields", [limited, rated, mixed])
@pytest.mark.parametrize("has_changes", [False, True])
async def test_the_same_jobs_start_and_wait_as_one_by_one(
    own_store: RedisStore,
    general: RedisStore,
    clock: FakeTicker,
    fields: Any,
    has_changes: bool,
) -> None:
    random, both = Random(f"{SEED} {fields.__name__} {has_changes}"), (own_store, general)
    verdicts = [DONE, DONE, KEPT] if has_changes else [DONE]
    running: tuple[list[Settlement], list[Settlement]] = [], []
    ids: list[str] = []
    started = 0
    for step in range(STEPS):
        where = f"seed {SEED}, step {step}"
        if random.random() < 0.4:
            new = some_jobs(random, fields)
            ids += [job.id for job in new]
            for one in both:
                await one.enqueue(new)
        if has_changes and random.random() < 0.2:
            await change(both, random, running[0], ids)
        limit, verdict = random.choice(LIMITS), random.choice(verdicts)
        skipped = random.choice([1, 1, 2])  # of two runs, one goes on
        found = []
        for one, its in zip(both, running, strict=True):
            ending = its[::skipped]
            its[:] = [] if skipped == 1 else its[1::skipped]
            result = await one.settle_and_claim(ending, [QUEUE], limit, HOUR, "w1")
            its.extend(settlements(result.claims, verdict, has_handles=one is own_store))
            found.append(result)
        ours, theirs = found
        assert [claim.id for claim in ours.claims] == [claim.id for claim in theirs.claims], where
        assert (ours.took, ours.again) == (theirs.took, theirs.again), where
        assert ours.busy == theirs.busy, where
        assert await own_store.find(ids) == await general.find(ids), where
        started += len(ours.claims)
        await clock.tick(random.choice([0, 0, 1, 20]))
    assert started > STEPS
    assert await own_store.queues() == await general.queues()
    assert await own_store.timeline(ids[0]) == await general.timeline(ids[0])


def settlements(
    claims: list[Claim], verdict: Verdict, *, has_handles: bool = True
) -> list[Settlement]:
    found = claims if has_handles else [replace(claim, ref=None) for claim in claims]
    return [Settlement(claim, verdict) for claim in found]


async def test_nothing_of_a_key_stays_when_its_jobs_have_ended(store: RedisStore) -> None:
    """Its holders, the jobs that wait for it and the sets of both are deleted."""
    await store.enqueue(jobs(5, resource="a") + jobs(5, resource="b", limit=2))
    while claims := (await store.claim([QUEUE], 10, LEASE, "w1")).claims:
        assert all(await store.settle(settlements(claims, DONE)))
    root = store.context.keys.queue(QUEUE)
    names = ["held", "waited", "blocked", "lease", "jobs"]
    names += [f"{kind}:{key}" for kind in ("holders", "waiting") for key in "ab"]
    command = store.context.connection.command
    assert [name for name in names if await command("EXISTS", f"{root}:{name}")] == []


async def test_a_claim_looks_no_further_when_many_keys_are_busy(store: RedisStore) -> None:
    """It says that there is more. The next claims start or block the rest, in order."""
    keys = [f"k{n}" for n in range(40)]
    each = [jobs(len(keys)) for _ in range(4)]
    rows = [
        [NewJob(id=job.id, task="send", queue=QUEUE, payload=b"", resource=key) for job, key in row]
        for row in (list(zip(one, keys, strict=True)) for one in each)
    ]
    await store.enqueue([job for row in rows for job in row])
    first = await store.claim([QUEUE], 60, LEASE, "w1")
    assert [claim.id for claim in first.claims] == [job.id for job in rows[0]]
    assert first.again == 0, "more jobs are ready"
    started, claims = [claim.id for claim in first.claims], first.claims
    while claims:
        result = await store.settle_and_claim(settlements(claims, DONE), [QUEUE], 60, LEASE, "w1")
        claims = result.claims
        started += [claim.id for claim in claims]
    assert started == [job.id for row in rows for job in row]
