"""Which jobs run and wait at keys that have only rates: their records do not name them."""

from collections import Counter as Counters

from msgspec.structs import replace

from mita.rules.gates import keys_of
from mita.stores.nats.codec import ResourceKeyRecord
from mita.stores.nats.context import NatsContext

from .decode import decode_waiter
from .queue_use import running_jobs
from .subjects import RecordKind


async def with_waiting(
    context: NatsContext,
    keys: dict[tuple[str, str], ResourceKeyRecord],
    queue: str | None,
    key: str | None,
) -> dict[tuple[str, str], ResourceKeyRecord]:
    """Returns these keys, with the jobs that wait at them and are not counted. They are read only
    if this queue and key (None: any) may have such jobs."""
    uncounted = {one for one, record in keys.items() if record.uncounted}
    asked = [one for one in uncounted if queue in (None, one[0]) and key in (None, one[1])]
    if not asked:
        return keys
    pattern = context.subjects.all(RecordKind.WAITER)
    if len(asked) == 1:
        pattern = context.subjects.waiters(*asked[0])
    waiting = Counters[str](
        message.subject.rsplit(".", 2)[0]
        for message in await context.reader.all(pattern)
        if message.body and not decode_waiter(message.body, message.subject).counted
    )
    more = {one: waiting[context.subjects.waiters(*one).removesuffix(".*.*")] for one in asked}
    return {
        one: replace(record, waiting=record.waiting + more.get(one, 0))
        for one, record in keys.items()
    }


async def with_holders(
    context: NatsContext, keys: dict[tuple[str, str], ResourceKeyRecord]
) -> dict[tuple[str, str], ResourceKeyRecord]:
    """Returns these keys; those with a rate, also with the running jobs that they do not count."""
    with_rates = {queue for (queue, _), record in keys.items() if record.interval_us}
    holders: dict[tuple[str, str], list[str]] = {}
    for queue in with_rates:
        for job in await running_jobs(context, queue):
            for key in keys_of(job.resource, job.gates):
                holders.setdefault((queue, key), []).append(job.id)
    return {
        one: replace(record, holders=tuple({*record.holders, *holders.get(one, ())}))
        for one, record in keys.items()
    }
