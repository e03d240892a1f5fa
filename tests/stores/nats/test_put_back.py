"""Jobs that are put back into their queue while the next ones are claimed."""

import pytest

from mita.errors import Rejected
from mita.model.job import Claim
from mita.model.outcome import Settlement
from mita.stores.nats import NatsStore
from mita.stores.nats import claim as claiming
from mita.testing.contract.given import (
    LONG,
    QUEUE,
    claims,
    look,
    put,
    put_many,
    release,
    retry,
    succeed,
)


async def turn(
    store: NatsStore, settlements: list[Settlement], limit: int, queues: list[str] | None = None
) -> list[str]:
    result = await store.settle_and_claim(settlements, queues or [QUEUE], limit, LONG, "w")
    assert result.took == [True] * len(settlements)
    return [claim.id for claim in result.claims]


@pytest.fixture(params=["both at once", "one after the other"])
def how(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """Both ways must give the same jobs."""
    if request.param == "one after the other":
        monkeypatch.setattr(claiming, "_comes_last", lambda *_: False)
    return str(request.param)


async def test_a_job_that_is_put_back_comes_after_those_that_are_ready(
    store: NatsStore, how: str
) -> None:
    first, *others = await put_many(store, 3)
    [claim] = await claims(store, 1)
    assert claim.id == first
    assert await turn(store, [retry(claim)], 10) == [*others, first]


async def test_a_claim_with_room_for_others_leaves_it(store: NatsStore, how: str) -> None:
    first, second, third = await put_many(store, 3)
    [claim] = await claims(store, 1)
    assert await turn(store, [retry(claim)], 1) == [second]
    assert await turn(store, [], 10) == [third, first]


async def test_a_lone_job_comes_again_at_once(store: NatsStore, how: str) -> None:
    await put(store)
    [claim] = await claims(store, 1)
    assert await turn(store, [release(claim)], 10) == [claim.id]
    assert (await look(store, claim.id)).token == 2


async def test_one_of_a_higher_priority_goes_before_those_that_are_ready(
    store: NatsStore, how: str
) -> None:
    high = await put(store, priority=9)
    low = await put(store, priority=1)
    [claim] = await claims(store, 1)
    assert claim.id == high
    assert await turn(store, [retry(claim)], 1) == [high]
    assert await turn(store, [], 1) == [low]


async def test_one_of_the_first_queue_goes_before_those_of_the_second(
    store: NatsStore, how: str
) -> None:
    first = await put(store)
    await put(store, queue="second")
    [claim] = await claims(store, 1)
    assert await turn(store, [retry(claim)], 1, [QUEUE, "second"]) == [first]


async def test_jobs_without_a_key_are_put_back_while_the_next_are_claimed(
    store: NatsStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Only a claim that finds too little is followed by another."""
    found: list[int] = []
    last = claiming.claim

    async def counted(*args: object) -> object:
        found.append(1)
        return await last(*args)  # type: ignore[arg-type]

    await put_many(store, 4)
    held: list[Claim] = await claims(store, 2)
    monkeypatch.setattr(claiming, "claim", counted)
    await turn(store, [retry(held[0])], 1)
    assert found == []
    await turn(store, [retry(held[1])], 10)
    assert found == [1]


async def test_a_rejected_settlement_leaves_nothing_claimed(tight: NatsStore) -> None:
    """A job that is put back beside a result that is too large: the caller gets no claims."""
    await put_many(tight, 4)
    one, two = await claims(tight, 2)
    large = succeed(two, result=bytes(2_000_000))
    with pytest.raises(Rejected):
        await tight.settle_and_claim([retry(one), large], [QUEUE], 10, LONG, "w")
    assert (await tight.queues())[0].running == 1
