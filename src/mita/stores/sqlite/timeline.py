"""What happened to a job beyond the happy path."""

from collections.abc import Iterable

from mita.model.outcome import TimelineEntry
from mita.rules.readable import read_event
from mita.rules.timeline import TIMELINE_LENGTH, told

from .context import Tx, as_json


def note(
    tx: Tx, seq: int, kind: str, text: str, worker: str | None = None, error: str = ""
) -> None:
    tx.run("note", job=seq, at=tx.now, kind=kind, note=text, worker=worker, error=error)
    fold(tx, [seq])


def fold(tx: Tx, seqs: Iterable[int]) -> None:
    """Once for each line that was added: as `rules.timeline` has it."""
    which = as_json(seqs)
    tx.run("fold", seqs=which, keep=TIMELINE_LENGTH)
    tx.run("fold_away", seqs=which, keep=TIMELINE_LENGTH)


def timeline(tx: Tx, id: str) -> list[TimelineEntry]:
    return told(
        [
            read_event(dict(zip(TimelineEntry.__struct_fields__, row, strict=True)))
            for row in tx.rows("timeline", id=id)
        ]
    )
