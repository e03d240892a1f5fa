"""The page of resource keys: who holds each, how many wait, rates, holds and limits."""

import asyncio
from functools import partial

from starlette.responses import Response

from mita.errors import UsageError
from mita.model.limits import stored_limit
from mita.model.view import ResourceView
from mita.rules.display import as_datetime, limit_text
from mita.web.fields import limit_fields, unit_field, whole_field
from mita.web.visit import Form, Visit

MOST_SHOWN_KEYS = 200
ACTS = ("hold", "unhold", "limit", "unlimit")


async def show(visit: Visit) -> Response:
    """Show the keys that are held, waited for, on hold or limited; those with most waiters
    first."""
    queue, key = visit.query("queue"), visit.query("key")
    read = partial(visit.app.resources, queue=queue, key=key)
    aged = visit.site.aged
    keys, queues = await asyncio.gather(
        aged.get(("keys", queue, key), read), aged.get("queues", visit.app.queues)
    )
    found = sorted(keys.value or (), key=_urgency)
    return visit.render(
        "keys.html",
        keys=keys,
        rows=found[:MOST_SHOWN_KEYS],
        left=len(found) - MOST_SHOWN_KEYS,
        queues=[view.name for view in queues.value or ()],
        queue=queue,
        key=key,
        as_datetime=as_datetime,
    )


def _urgency(view: ResourceView) -> tuple[int, int, str, str]:
    return -view.waiting, -len(view.holders), view.key, view.queue


async def act(visit: Visit) -> Response:
    """Hold, free or limit a key, in one queue or in all."""
    sent = await visit.form()
    key, queue, verb = sent.get("key"), sent.get("queue") or None, sent.get("act")
    where = f"in queue {queue}" if queue else "in all queues"
    with visit.acting(sent.get("reason")):
        match verb:
            case "hold":
                return visit.done(await _hold(visit, key, queue, where, sent))
            case "unhold":
                await visit.app.unhold(key, queue=queue)
                return visit.done(f"Key {key} is free {where}: its jobs may start.")
            case "limit":
                concurrency, rate = limit_fields(sent)
                await visit.app.limit_key(key, concurrency=concurrency, rate=rate, queue=queue)
                words = limit_text(stored_limit(concurrency, rate))
                return visit.done(f"Key {key} is limited {where}: {words}.")
            case "unlimit":
                await visit.app.limit_key(key, queue=queue)
                return visit.done(f"Key {key} has only the limits of its tasks {where}.")
    raise UsageError(f"act={verb!r}: use one of {', '.join(ACTS)}")


async def _hold(visit: Visit, key: str, queue: str | None, where: str, sent: Form) -> str:
    length = whole_field(sent, "for", "how long")
    if length is None:
        raise UsageError("give how long no job with this key may start, for example 10 minutes")
    unit = unit_field(sent, "unit")
    await visit.app.hold(key, after=length * unit, queue=queue)
    return f"Key {key} is on hold {where} for {length} {sent.get('unit') or 's'}."
