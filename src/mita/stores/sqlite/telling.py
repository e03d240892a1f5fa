"""Telling what happens: a few rows that are soon forgotten, and a ring. None of it waits for the disk."""

from collections.abc import Sequence

from mita.ports.ear import EAR_KEEP, MOST_TOLD, TOLD_KEEP, Told, read_told
from mita.ports.store import TOLD

from .tx import Tx, is_text


def tell(tx: Tx, told: Sequence[Told]) -> None:
    for one in told:
        tx.run("tell", at=tx.now, queue=one.queue, count=one.count, events=one.events)
    tx.run("trim_told", most=MOST_TOLD)
    tx.topics.add(TOLD)


def listened(tx: Tx) -> frozenset[str]:
    return frozenset(row[0] for row in tx.rows("listened", now=tx.now) if is_text(row))


def listen(tx: Tx, id: str, queue: str) -> int:
    """Say that somebody listens; where he begins."""
    tx.run("listen", id=id, queue=queue, until=tx.now + EAR_KEEP)
    return int(tx.one("told_last"))


def deafen(tx: Tx, id: str) -> None:
    tx.run("deafen", id=id)


def forget(tx: Tx) -> None:
    """What nobody needs any more."""
    tx.run("forget_told", before=tx.now - TOLD_KEEP)
    tx.run("bury_ears", now=tx.now)


class Follower:
    """Goes through what was told, from one place on."""

    def __init__(self, seq: int) -> None:
        self._seq = seq

    def news(self, tx: Tx) -> list[Told]:
        rows = tx.rows("told_since", seq=self._seq)
        if rows:
            self._seq = rows[-1][0]
        return read_told(row[1:] for row in rows)
