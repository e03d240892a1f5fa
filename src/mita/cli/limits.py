"""Limits of queues and keys: `limit queue`, `limit key`, and `keys`."""

import argparse
import logging
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime
from typing import Any

from mita.errors import UsageError
from mita.model.gate import StoredLimit
from mita.model.limits import Rate
from mita.model.view import ResourceView
from mita.rules.display import as_datetime, limit_text, rate_text
from mita.rules.words import relative

from .argtypes import count, rate
from .context import CommandContext, store_command
from .limit_data import limit_data, seconds_between_starts
from .parser import Commands, Parser, reason_option
from .queues import queues_of_key, unknown_queue
from .screen import Report, listed
from .table import Column, Table

NO_KEYS = "no key is held, waited for, on hold or limited"


def add(commands: Commands) -> None:
    about = "A limit holds for all workers, from the next start on. It replaces an earlier one."
    parser = commands.add("limit", store_command(_which), about=about)
    verbs = Commands(parser, verbs=True)
    queue = verbs.add("queue", store_command(limit_queue), "limit the jobs of a queue", about=about)
    queue.add_argument("queue", metavar="QUEUE")
    _limit_options(queue)
    key = verbs.add("key", store_command(limit_key), "limit the jobs with a key", about=about)
    key.add_argument("key", metavar="KEY")
    key.add_argument("--queue", help="only in this queue (default: in each queue)")
    _limit_options(key)
    keys = commands.add("keys", store_command(show_keys))
    keys.add_argument("--queue", help="only of this queue")


def _limit_options(parser: Parser) -> None:
    parser.add_argument(
        "--concurrency", type=_whole, metavar="N", help="jobs that run at once; 0 starts no jobs"
    )
    parser.add_argument(
        "--rate", type=rate, metavar="N/TIME", help="starts per time: 100/s, 60/m, 5/10s, 1000/h"
    )
    parser.add_argument(
        "--burst", type=count, metavar="N", help="starts at once after a pause (default: 1)"
    )
    parser.add_argument("--none", action="store_true", help="remove the limit")
    reason_option(parser)


def _whole(text: str) -> int:
    if not text.isascii() or not text.isdigit():
        raise argparse.ArgumentTypeError(f"{text!r}: give a whole number, 0 or more")
    return int(text)


async def _which(_: CommandContext) -> Report:
    raise UsageError(
        "say what to limit: `mita limit queue mail --concurrency 50 --rate 100/s`, or "
        "`mita limit key partner --concurrency 5`"
    )


def _given(context: CommandContext) -> dict[str, Any]:
    """The limit as the options name it. Raises `UsageError` if they name none, or both none and
    one."""
    options = context.options
    given = options.concurrency is not None or options.rate is not None
    if options.burst is not None and options.rate is None:
        raise UsageError("--burst belongs to a rate: give --rate as well, for example --rate 100/s")
    if given == options.none:
        raise UsageError(
            "give --concurrency, --rate or both, for example --concurrency 50 --rate 100/s; "
            "--none removes the limit"
        )
    chosen = options.rate
    if chosen is not None and options.burst is not None:
        chosen = Rate(chosen.limit, per=chosen.per, burst=options.burst)
    return {"concurrency": options.concurrency, "rate": chosen}


@contextmanager
def _unlogged() -> Iterator[None]:
    """Keep what the client logs from the terminal, until the end of the block."""
    logger = logging.getLogger("mita.client")
    before, logger.disabled = logger.disabled, True
    try:
        yield
    finally:
        logger.disabled = before


async def limit_queue(context: CommandContext) -> Report:
    given, name = _given(context), context.options.queue
    known = [view.name for view in await context.app.queues()]
    with _unlogged():  # the verb would log what this report says
        await context.app.limit_queue(name, **given)
    [view] = [view for view in await context.app.queues() if view.name == name]
    word = "" if name in known else unknown_queue(known)
    data = {"queue": name, "known": name in known, "limit": limit_data(view.limit)}
    return Report(data, f"{name}  {limit_text(view.limit) or 'no limit'}{word}")


async def limit_key(context: CommandContext) -> Report:
    given, key, queue = _given(context), context.options.key, context.options.queue
    queues = await queues_of_key(context)
    known = [view.name for view in await context.app.queues()]
    await context.app.limit_key(key, queue=queue, **given)
    store = await context.store()
    views = [view for name in queues for view in await store.resources(name, key)]
    limit = next((view.limit for view in views), None)
    used = any(view.holders or view.waiting for view in views)
    word = "" if used else "; no job with this key runs or waits now"
    if queue is not None and queue not in known:
        word = unknown_queue(known)
    data = {"key": key, "queues": queues, "used": used, "limit": limit_data(limit)}
    return Report(data, f"{key}  {limit_text(limit) or 'no limit'} in {listed(queues)}{word}")


async def show_keys(context: CommandContext) -> Report:
    views = await context.app.resources(queue=context.options.queue)
    data = {"keys": [key_data(view) for view in views]}
    if not views:
        return Report(data, NO_KEYS)
    now = await context.now()
    columns = (
        Column("key", drop_order=1, min_width=12),
        Column("queue", drop_order=4),
        Column("running", right=True),
        Column("waiting", right=True),
        Column("limit", drop_order=2),
        Column("rate", drop_order=3),
        Column("next start", drop_order=5),
    )
    rows = [
        (
            view.key,
            view.queue,
            len(view.holders),
            view.waiting,
            _cap(view),
            _rate(view),
            _next_start(view, now),
        )
        for view in views
    ]
    return Report(data, Table(columns, rows))


def _cap(view: ResourceView) -> str:
    """How many jobs an operator lets run at once."""
    if view.limit is None or view.limit.concurrency is None:
        return ""
    return limit_text(StoredLimit(view.limit.concurrency))


def _rate(view: ResourceView) -> str:
    """The rate that an operator has set, else that of the latest start."""
    set_by_hand = view.limit is not None and view.limit.interval_us
    rate = view.limit if view.limit is not None and set_by_hand else view
    return rate_text(rate.interval_us, rate.burst)


def _next_start(view: ResourceView, now: datetime) -> str:
    """When the clock lets the next job start: at the end of a hold, or when its rate has a
    token."""
    moments = [moment for moment in (view.held_until, view.next_start) if moment is not None]
    return relative(as_datetime(max(moments)), now) if moments else ""


def key_data(view: ResourceView) -> dict[str, Any]:
    return {
        "key": view.key,
        "queue": view.queue,
        "holders": [holder.id for holder in view.holders],
        "waiting": view.waiting,
        "held_until": None if view.held_until is None else as_datetime(view.held_until),
        "limit": limit_data(view.limit),
        "seconds_between_starts": seconds_between_starts(view.interval_us),
        "burst": view.burst if view.interval_us else None,
        "next_start": None if view.next_start is None else as_datetime(view.next_start),
    }
