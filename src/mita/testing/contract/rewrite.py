"""Other arguments for a job that does not run (`RewriteJob`)."""

import pytest
from msgspec.structs import replace

from mita.errors import Rejected
from mita.model.gate import Gate
from mita.model.outcome import Answer, CancelJob, RetryJob, RewriteJob
from mita.model.time import HOUR, NOW, When
from mita.ports.store import Can, Store

from .given import (
    LONG,
    QUEUE,
    claim_one,
    claimed_ids,
    claims,
    dead,
    done,
    job,
    look,
    needs,
    put,
    put_many,
    running,
    settled,
    succeed,
)
from .limits import too_large

SIZES_BYTES = (0, 1, 200, 256, 300, 70_000)  # MessagePack writes their lengths in different ways


async def _blocked(store: Store) -> str:
    await running(store, resource="r")
    id = await put(store, resource="r")
    assert await claimed_ids(store) == []
    return id


async def test_a_job_that_does_not_run_gets_other_arguments(store: Store) -> None:
    """Ready, scheduled, blocked, failed and cancelled jobs take them. Nothing else changes, and the
    timeline says so."""
    cancelled = await put(store, unique="c")
    await store.amend([cancelled], CancelJob(keep=HOUR))
    ids = [await _blocked(store), await dead(store, unique="d"), cancelled]
    ids += [await put(store, when=When(LONG), headers=b"h", options=b"o"), await put(store)]
    for id in ids:
        before = await look(store, id)
        assert await store.amend([id], RewriteJob(b"\x91\x01", "by Ada")) == [Answer.DONE]
        assert await look(store, id) == replace(before, payload=b"\x91\x01")
        last = (await store.timeline(id))[-1]
        assert (last.kind, last.note, last.worker) == ("amended", "by Ada", None)


async def test_a_run_gets_the_new_arguments(store: Store) -> None:
    """A claim after the change has them: of a ready job, and of a failed one that is retried."""
    ended = await dead(store)
    await store.amend([ended], RewriteJob(b"\x91\x02"))
    await store.amend([ended], RetryJob(NOW))
    claim = await claim_one(store)
    assert (claim.id, claim.payload) == (ended, b"\x91\x02")
    await settled(store, succeed(claim))
    ready = await put(store)
    await store.amend([ready], RewriteJob(b"\x91\x03"))
    claim = await claim_one(store)
    assert (claim.id, claim.payload) == (ready, b"\x91\x03")
    await settled(store, succeed(claim))


async def test_a_job_that_runs_or_has_succeeded_keeps_its_arguments(store: Store) -> None:
    """The answer is `TOO_LATE`, and nothing changes; an id that is not there is `UNKNOWN`."""
    ids = [await done(store), (await running(store)).id]
    before = await store.find(ids)
    answers = await store.amend([*ids, "f" * 32], RewriteJob(b"\x91\x01"))
    assert answers == [Answer.TOO_LATE, Answer.TOO_LATE, Answer.UNKNOWN]
    assert await store.find(ids) == before
    assert "amended" not in [event.kind for event in await store.timeline(ids[1])]


async def test_arguments_of_every_size_replace_arguments_of_every_size(store: Store) -> None:
    """What is stored beside the arguments stays: options, headers, keys, gates and group."""
    gates = (Gate("g", 2),)
    beside = {"options": b"o" * 300, "headers": b"h", "resource": "r", "unique": "u"}
    rich = await put(store, when=When(LONG), gates=gates, fair="f", weight=2000, **beside)
    plain = await put(store, when=When(LONG))
    before = [await look(store, id) for id in (rich, plain)]
    for size in (*SIZES_BYTES, *reversed(SIZES_BYTES)):
        payload = b"\xc0" * size
        assert await store.amend([rich, plain], RewriteJob(payload)) == [Answer.DONE] * 2
        after = [await look(store, id) for id in (rich, plain)]
        assert after == [replace(one, payload=payload) for one in before]


async def test_a_job_keeps_its_place_and_its_unique_key(store: Store) -> None:
    """Jobs start in the order in which they were enqueued, and the key stays taken."""
    first, second = await put_many(store, 2)
    third = await put(store, unique="u")
    await store.amend([first, third], RewriteJob(b"\x91\x01"))
    [receipt] = await store.enqueue([job(unique="u")])
    assert (receipt.id, receipt.created) == (third, False)
    found = await claims(store)
    assert sorted(claim.id for claim in found) == sorted([first, second, third])
    needs(store, Can.KEEP_EXACT_ORDER)
    assert [claim.id for claim in found] == [first, second, third]


async def test_arguments_that_are_too_large_are_rejected(tight: Store) -> None:
    """The call raises `Rejected`, and the job is as it was."""
    for id in (await put(tight, when=When(LONG)), await dead(tight)):
        before = await look(tight, id)
        with pytest.raises(Rejected):
            await tight.amend([id], RewriteJob(too_large(tight)))
        assert await look(tight, id) == before


async def test_another_process_sees_the_new_arguments(store: Store, twin: Store) -> None:
    """A claim of another process has the arguments that this one has stored."""
    id = await put(store)
    await store.amend([id], RewriteJob(b"\x91\x07"))
    [claim] = (await twin.claim([QUEUE], 1, LONG, "w2")).claims
    assert (claim.id, claim.payload) == (id, b"\x91\x07")
