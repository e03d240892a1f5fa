"""What happened to a job beyond the happy path."""

from mita.model.outcome import Event
from mita.ports.store import TIMELINE_LENGTH

from .tx import Tx


def note(tx: Tx, seq: int, kind: str, text: str, worker: str | None = None) -> None:
    tx.run("note", job=seq, at=tx.now, kind=kind, note=text, worker=worker)
    tx.run("fold", job=seq, keep=TIMELINE_LENGTH)


def timeline(tx: Tx, id: str) -> list[Event]:
    rows = tx.rows("timeline", id=id)
    events = [Event(at, kind, text, worker) for _, at, kind, text, worker in rows]
    total = rows[-1][0] if rows else 0
    if total <= TIMELINE_LENGTH:
        return events
    newest = events[-(TIMELINE_LENGTH - 1) :]
    return [Event(newest[0].at, "folded", f"{total - len(newest)} earlier events"), *newest]
