"""The statement of a claim: which of its kinds is sent, from where it reads, and what it says."""

import time
from collections.abc import Iterable

from mita.model.time import Wait
from mita.stores.postgres import codec
from mita.stores.postgres.codec import ClaimHeader, Rows
from mita.stores.postgres.context import PostgresContext, Query, query
from mita.stores.postgres.limits.hints import CLAIM_STATEMENTS, QueueKind
from mita.stores.postgres.server.arrays import numbers, texts

from .known_priorities import QueuePriority


class ClaimStatement:
    """The claims of one call. `header` is what the latest of them says of the queues."""

    header: ClaimHeader

    def __init__(
        self, context: PostgresContext, queues: list[str], lease: Wait, worker: str
    ) -> None:
        self._context = context
        self._queues, self._lease, self._worker = queues, lease, worker
        self.names = texts(queues)
        self._has_learned = False
        self.limit = 0  # of the latest
        self._kind, self._is_mixed = QueueKind.PLAIN, False

    @property
    def is_plain(self) -> bool:
        """Whether the latest claim was for queues without limits: then its rows are plain."""
        return self._kind is QueueKind.PLAIN

    def queries(self, limit: int, *, synced: bool, keys_first: bool) -> list[Query]:
        """A claim of so many jobs, and from time to time a read of the first waiting jobs for the
        watermarks."""
        self._read_from = self._context.watermarks.read_from(self._queues)
        self._started_s = time.monotonic()
        queries = [self.claim(limit, synced=synced, keys_first=keys_first)]
        if self._read_from is not None:
            marks = numbers(self._read_from.values())
            queries.append(query("claim_watermarks", **_columns(self._read_from), watermarks=marks))
        return queries

    def claim(self, limit: int, *, synced: bool, keys_first: bool) -> Query:
        """A claim of so many jobs."""
        watermarks, hints = self._context.watermarks, self._context.hints
        # `mixed` may be from a time when jobs aged
        self._is_mixed = hints.mixed and hints.ageing is not None
        self._kind = hints.kind(self._queues)
        self.limit = limit
        queues, turns, lows, highs, marks = zip(*watermarks.lines(self._queues), strict=True)
        return query(
            CLAIM_STATEMENTS[self._kind, self._is_mixed],
            names=self.names,
            queues=texts(queues),
            turns=numbers(turns),
            lows=numbers(lows),
            highs=numbers(highs),
            watermarks=numbers(marks),
            behind=watermarks.behind,
            ageing=hints.ageing,
            keys_first=keys_first,
            limit=limit,
            lease=self._lease,
            worker=self._worker,
            unsynced=not synced,
        )

    def any_due(self) -> Query:
        """Whether any job is due, of the queues that need no care."""
        careful = self._context.hints.careful
        queues = [name for name in self._queues if name not in careful]
        return query("claim_any_due", **_columns(self._context.watermarks.priorities.of(queues)))

    def read(self, answers: list[Rows]) -> Rows:
        """Read the answers to `queries`. Returns the rows of the jobs taken or shown."""
        rows = answers[0]
        self.header = header = codec.claim_header(rows.pop(0)[0])
        watermarks = self._context.watermarks
        hold = watermarks.still_hold(header.now, header.behind, len(rows))
        if hold and self._read_from is not None:
            firsts = [due for _, due in answers[1]]
            took_s = time.monotonic() - self._started_s
            watermarks.move(header.now, firsts, self._read_from, took_s)
        return rows

    def knew_priorities(self, header: ClaimHeader) -> bool:
        """Whether the priorities of all waiting jobs were known. If not, the claim took nothing,
        and they are known now: first those that it has found, the next time all."""
        if header.strays is None:
            return True
        priorities = self._context.watermarks.priorities
        if self._has_learned:
            priorities.learn_all({queue for queue, _ in header.strays})
        else:
            priorities.learn(header.strays)
        self._has_learned = True
        return False

    def was_right(self) -> bool:
        """Remember what the header says. Returns whether the latest claim was of the right kind for
        its queues and knew their priorities; otherwise it took nothing."""
        fits = self._context.hints.fits(self._queues, self._kind, self.header)
        return self.knew_priorities(self.header) and fits

    def was_in_order(self) -> bool:
        """The same of the order: whether jobs of several priorities are due that age."""
        hints = self._context.hints
        hints.mixed = self.header.mixed
        return self._is_mixed or not hints.mixed


def _columns(lines: Iterable[QueuePriority]) -> dict[str, str]:
    """The arrays `queues` and `priorities` of a statement."""
    pairs = list(lines)
    return {
        "queues": texts([queue for queue, _ in pairs]),
        "priorities": numbers(priority for _, priority in pairs),
    }
