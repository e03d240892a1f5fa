"""Listing what was claimed together, so that a reaper need not read all homes."""

from collections.abc import Iterable, Sequence

from mita.model.time import Moment

from .codec import Claimed, Ref, pack
from .context import Context
from .messages import Out
from .removal import remove_some_time


class Batches:
    """The records that list jobs claimed together: removed when the last of them is put down."""

    def __init__(self, context: Context) -> None:
        self._context = context
        self._left: dict[str, int] = {}
        self._seqs: dict[str, int] = {}
        self._count = 0
        self._name = context.wire.new_inbox().rsplit(".", 1)[1]

    def new(self) -> str:
        self._count += 1
        return f"{self._name}-{self._count}"

    def message(self, batch: str, until: Moment, homes: Sequence[str]) -> Out:
        return Out(self._context.subjects.claimed(batch), pack(Claimed(until, tuple(homes))))

    def opened(self, batch: str, seq: int, jobs: int) -> None:
        if jobs:
            self._left[batch], self._seqs[batch] = jobs, seq
        else:
            remove_some_time(self._context, seq)

    def put_down(self, refs: Iterable[object]) -> None:
        for ref in refs:
            if not isinstance(ref, Ref) or ref.batch not in self._left:
                continue
            self._left[ref.batch] -= 1
            if not self._left[ref.batch]:
                del self._left[ref.batch]
                remove_some_time(self._context, self._seqs.pop(ref.batch))
