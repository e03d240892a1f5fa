"""Committing many small transactions with a few requests for all of them."""

from collections.abc import Sequence

from mita.stores.nats.context import NatsContext

from .removal import remove
from .transaction import StreamTransaction


async def commit_together(context: NatsContext, txs: Sequence[StreamTransaction]) -> list[bool]:
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
