"""The history of runs in NATS: few messages of a bounded size, which the server removes."""

import asyncio
from base64 import b64decode
from itertools import pairwise

from mita.model.history import MOST_PAIRS, RunCounts
from mita.rules.history import OTHERS
from mita.stores.nats import NatsStore, history
from mita.stores.nats.stream.decode import decode_history
from mita.stores.nats.stream.subjects import RecordKind

from . import servers


def counts(task: str, succeeded: int = 1) -> RunCounts:
    return RunCounts(queue="q", task=task, succeeded=succeeded)


async def messages(store: NatsStore) -> int:
    found = await store.context.reader.all(store.context.subjects.all(RecordKind.HISTORY))
    return len(found)


async def test_workers_of_one_slot_share_its_messages(store: NatsStore, namespace: str) -> None:
    """They retry when another one was faster, so nothing is lost, and few messages are enough."""
    twin = NatsStore(servers.shared().url, namespace=namespace)
    await twin.open()
    twin.context.history_slot = store.context.history_slot

    async def add(one: NatsStore) -> None:
        for _ in range(10):
            await one.count_runs([counts("t")])

    await asyncio.gather(add(store), add(twin), add(store), add(twin))
    found = await store.run_history(0, hourly=True, queue=None, task=None)
    assert sum(one.succeeded for one in found) == 40
    assert await messages(store) <= 4  # two, unless a minute or an hour has just ended
    await twin.close()


async def test_the_server_removes_the_messages_when_their_time_is_over(store: NatsStore) -> None:
    await store.count_runs([counts("t")])
    context = store.context
    kept = []
    for message in await context.reader.all(context.subjects.all(RecordKind.HISTORY)):
        wanted = {"seq": message.seq}
        answer = await context.wire.api(f"STREAM.MSG.GET.{context.subjects.stream}", wanted)
        head = b64decode(answer["message"]["hdrs"]).decode()
        [ttl] = [line for line in head.splitlines() if line.startswith("Nats-TTL")]
        kept.append(ttl)
    assert sorted(kept) == ["Nats-TTL: 7783200s", "Nats-TTL: 86520s"]


def test_pairs_that_do_not_fit_into_a_message_are_counted_together() -> None:
    added = {("q", f"task {n}"): [1] * 7 for n in range(MOST_PAIRS + 100)}
    rows = decode_history(history._packed([], added, 1_000_000))
    assert len(rows) == MOST_PAIRS + 1
    assert sum(numbers[0] for _, _, numbers in rows) == MOST_PAIRS + 100
    sizes = [len(history._packed([], added, most)) for most in (20_000, 5_000, 1_000)]
    assert sizes == sorted(sizes, reverse=True)
    assert all(one > two for one, two in pairwise(sizes))
    small = decode_history(history._packed([], added, 1_000))
    assert sum(numbers[0] for _, _, numbers in small) == MOST_PAIRS + 100
    assert {(queue, task): numbers[0] for queue, task, numbers in small}[OTHERS] > MOST_PAIRS


def test_a_message_that_cannot_be_read_counts_as_empty() -> None:
    for body in (b"", b"\xc1", b"\x91\x93\xa1q\xa1t\x91\x01"):  # the last has too few numbers
        assert decode_history(body) == []
