"""Changing many jobs, each in a small transaction of its own, with a few requests for all."""

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import suppress
from typing import TypeVar

from mita.errors import Rejected
from mita.stores.nats.context import NatsContext

from .job_records import LocatedJob
from .removal import remove
from .transaction import AboutToFire, StreamTransaction, transact

T = TypeVar("T")


async def act_together(
    context: NatsContext,
    located: Mapping[str, LocatedJob],
    act: Callable[[StreamTransaction, str], Awaitable[T]],
) -> dict[str, T]:
    """Call `act` for each of these jobs, with a transaction and its id, and commit all of them
    together. Returns what `act` returns, by id. Jobs that another writer changed meanwhile, that
    need more than one message, or whose schedule is about to fire, are read again and changed one
    by one."""
    found: dict[str, T] = {}
    txs: dict[str, StreamTransaction] = {}
    for id, one in located.items():
        tx = StreamTransaction(context)
        tx.add_job(id, one)
        with suppress(AboutToFire, Rejected):
            found[id], txs[id] = await act(tx, id), tx
    done = await _commit_together(context, list(txs.values()))
    committed = {id for id, is_done in zip(txs, done, strict=True) if is_done}

    async def act_alone(id: str) -> None:
        found[id] = await transact(context, lambda tx: act(tx, id))

    await asyncio.gather(*(act_alone(id) for id in located if id not in committed))
    return found


async def _commit_together(context: NatsContext, txs: Sequence[StreamTransaction]) -> list[bool]:
    """Commit transactions that write at most one message each. Returns for each whether it is
    committed. False: another writer was faster, or it writes more than one message."""
    done = [not tx.has_writes for tx in txs]
    singles = [(at, one) for at, tx in enumerate(txs) if (one := tx.only_message()) is not None]
    seqs = await context.wire.store([message for _, message in singles])
    stored = [
        (at, message.subject, seq) for (at, message), seq in zip(singles, seqs, strict=True) if seq
    ]
    for at, subject, seq in stored:
        txs[at].written = {subject: seq}
        done[at] = True
    committed = [txs[at] for at, _, _ in stored]
    if tickets := [ticket for tx in committed for ticket in tx.tickets()]:
        await context.fail_point("between record and ticket")
        await context.wire.store(tickets)
    if stale := [seq for tx in committed for seq in tx.stale_tickets]:
        await remove(context, stale)
    if topics := {topic for tx in committed for topic in tx.wakeups}:
        context.notifier.notify(topics)
    return done
