"""A store whose values are encrypted."""

from collections.abc import Sequence
from typing import Any

import msgspec
from msgspec.structs import replace

from mita.model.flow import Arrival
from mita.model.job import Claim, Job, NewJob, Receipt
from mita.model.outcome import (
    Answer,
    Change,
    ClaimResult,
    Progress,
    RewriteJob,
    Settlement,
    SignalJob,
    TimelineEntry,
)
from mita.model.pattern import RepeatSpec
from mita.model.repeat import DueRepeats, Firing, Repeat
from mita.model.time import Wait
from mita.model.view import JobFilter, Page
from mita.ports.store import OnceValue, Store
from mita.rules.durable import signal_name
from mita.rules.fitting import check_room
from mita.rules.judge import locked
from mita.rules.matching import matches
from mita.rules.sealed import OVERHEAD_BYTES, REFUSED, BoundTo, is_sealed, key_of

from .box import SealingBox, repeat_place
from .keyring import Keyring, cipher_of

SEARCHED_JOBS = 500  # that one call reads to search in their errors

_read_spec = msgspec.msgpack.Decoder(RepeatSpec).decode
_pack_spec = msgspec.msgpack.Encoder().encode
_UNREADABLE = (msgspec.MsgspecError, ValueError, RecursionError)


class SealedStore:
    """A store in front of another one: it encrypts arguments, results, errors, progress, steps and
    signals on their way in, and decrypts them on their way out. All other operations are those of
    the store behind it. A job whose key is missing is not handed to the worker; it waits, and
    nothing is counted."""

    def __init__(self, store: Store, keyring: Keyring) -> None:
        self.behind: Any = store
        self.box = SealingBox(keyring)

    def __getattr__(self, name: str) -> Any:
        return getattr(self.behind, name)

    @property
    def ageing(self) -> Wait | None:
        """As of the store behind."""
        ageing: Wait | None = self.behind.ageing
        return ageing

    @ageing.setter
    def ageing(self, ageing: Wait | None) -> None:
        self.behind.ageing = ageing

    @property
    def room(self) -> int | None:
        """As of the store behind, less what encryption adds."""
        room: int | None = self.behind.room
        return None if room is None else room - OVERHEAD_BYTES

    # ------------------------------------------------------------ jobs

    async def enqueue(self, jobs: Sequence[NewJob]) -> list[Receipt]:
        """Store new jobs with encrypted arguments."""
        receipts: list[Receipt] = await self.behind.enqueue(self._sealed_jobs(jobs))
        return receipts

    async def enqueue_in(self, connection: Any, jobs: Sequence[NewJob]) -> list[Receipt]:
        """`enqueue` in the user's transaction."""
        sealed = self._sealed_jobs(jobs)
        receipts: list[Receipt] = await self.behind.enqueue_in(connection, sealed)
        return receipts

    def enqueue_in_sync(self, connection: Any, jobs: Sequence[NewJob]) -> list[Receipt]:
        """`enqueue_in`, for a connection that is not async."""
        sealed = self._sealed_jobs(jobs)
        receipts: list[Receipt] = self.behind.enqueue_in_sync(connection, sealed)
        return receipts

    async def complete_in(self, connection: Any, claim: Claim, result: bytes, keep: Wait) -> None:
        """Settle the claim with an encrypted result, in the user's transaction."""
        sealed = self.box.seal(result, ("result", claim.id))
        await self.behind.complete_in(connection, claim, sealed, keep)

    def complete_in_sync(self, connection: Any, claim: Claim, result: bytes, keep: Wait) -> None:
        """`complete_in`, for a connection that is not async."""
        sealed = self.box.seal(result, ("result", claim.id))
        self.behind.complete_in_sync(connection, claim, sealed, keep)

    async def claim(
        self, queues: Sequence[str], limit: int, lease: Wait, worker: str
    ) -> ClaimResult:
        """Claim jobs that can be decrypted."""
        return await self._opened(await self.behind.claim(queues, limit, lease, worker))

    async def settle(self, settlements: Sequence[Settlement]) -> list[bool]:
        """Write verdicts with encrypted results and errors."""
        took: list[bool] = await self.behind.settle(self._sealed(settlements))
        return took

    async def settle_and_claim(
        self,
        settlements: Sequence[Settlement],
        queues: Sequence[str],
        limit: int,
        lease: Wait,
        worker: str,
    ) -> ClaimResult:
        """`settle`, then `claim`."""
        sealed = self._sealed(settlements)
        return await self._opened(
            await self.behind.settle_and_claim(sealed, queues, limit, lease, worker)
        )

    async def reap(self, limit: int, lease: Wait, worker: str) -> list[Claim]:
        """Take over jobs whose lease expired. Their arguments may stay encrypted: they do not run
        now."""
        return [
            self.box.open_claim(claim) for claim in await self.behind.reap(limit, lease, worker)
        ]

    async def amend(self, ids: Sequence[str], change: Change) -> list[Answer]:
        """Change jobs; the value of a signal, and new arguments, are encrypted for each of them."""
        if not isinstance(change, SignalJob | RewriteJob):
            answers: list[Answer] = await self.behind.amend(ids, change)
            return answers
        found: list[Answer] = []
        for id in ids:
            sealed = await self._sealed_change(id, change)
            found += [Answer.UNKNOWN] if sealed is None else await self.behind.amend([id], sealed)
        return found

    async def _sealed_change(self, id: str, change: SignalJob | RewriteJob) -> Change | None:
        """The change with its value encrypted for this job; None if there is no such job."""
        if isinstance(change, SignalJob):
            value = self.box.seal_once(id, signal_name(change.name), change.value)
            return replace(change, value=value)
        [job] = await self.behind.find([id])
        return None if job is None else self.box.seal_rewrite(job, change)

    async def arrive(self, arrivals: Sequence[Arrival]) -> list[Answer]:
        """Tell jobs how others have ended; the results are encrypted."""
        sealed = [self.box.seal_arrival(arrival) for arrival in arrivals]
        answers: list[Answer] = await self.behind.arrive(sealed)
        return answers

    async def progress(self, reports: Sequence[Progress]) -> list[bool]:
        """Store the encrypted progress of runs."""
        sealed = [
            replace(one, report=self.box.seal(one.report, ("progress", one.claim.id)))
            for one in reports
        ]
        took: list[bool] = await self.behind.progress(sealed)
        return took

    async def load_once(self, claim: Claim, name: str, shared: bool) -> bytes | None:
        """Return a once value, decrypted."""
        value = await self.behind.load_once(claim, name, shared)
        return None if value is None else self.box.open_once(claim.id, name, value, shared)

    async def store_once(self, value: OnceValue) -> bytes | None:
        """Store an encrypted once value. Returns the stored one, decrypted."""
        id, shared = value.claim.id, value.keep is not None
        sealed = self.box.seal_once(id, value.name, value.value, shared)
        stored = await self.behind.store_once(replace(value, value=sealed))
        return None if stored is None else self.box.open_once(id, value.name, stored, shared)

    def _sealed_jobs(self, jobs: Sequence[NewJob]) -> list[NewJob]:
        room = self.room
        for job in jobs if room is not None else ():
            check_room(job.task, len(job.payload) + len(job.headers), room)
        return self.box.seal_jobs(jobs)

    def _sealed(self, settlements: Sequence[Settlement]) -> list[Settlement]:
        return [self.box.seal_settlement(one) for one in settlements]

    async def _opened(self, found: ClaimResult) -> ClaimResult:
        """The claims that can run. The others are given back, and wait for their key."""
        claims: list[Claim] = []
        closed: list[Claim] = []
        for claim in found.claims:
            opened = self.box.open_claim(claim)
            (closed if self._waits_for_key(opened) else claims).append(opened)
        if not closed:
            return replace(found, claims=claims)
        await self.behind.settle([Settlement(one, locked(one.payload)) for one in closed])
        return replace(found, claims=claims, again=0)

    def _waits_for_key(self, claim: Claim) -> bool:
        """Whether the key of this job may come. A value that was changed never opens: its run
        fails, and says so."""
        if not is_sealed(claim.payload):
            return False
        key = key_of(claim.payload)
        return key is None or cipher_of(self.box.keyring, key) is None

    # ------------------------------------------------------------ reading

    async def find(self, ids: Sequence[str]) -> list[Job | None]:
        """Return jobs, decrypted as far as the keys allow."""
        found = await self.behind.find(ids)
        return [None if job is None else self.box.open_job(job) for job in found]

    async def page(self, want: JobFilter, after: str | None, limit: int) -> Page:
        """Return jobs that match. The store cannot search in encrypted errors, so a search in
        errors reads page by page."""
        if want.error is None:
            page: Page = await self.behind.page(want, after, limit)
            return replace(page, jobs=[self.box.open_job(job) for job in page.jobs])
        now, jobs, broad = await self.behind.now(), [], replace(want, error=None)
        while True:
            page = await self.behind.page(broad, after, SEARCHED_JOBS)
            for job in map(self.box.open_job, page.jobs):
                if matches(job, want, now):
                    jobs.append(job)
                if len(jobs) == limit:
                    return Page(jobs, job.id)
            after = page.after
            if after is None:
                return Page(jobs)

    async def timeline(self, id: str) -> list[TimelineEntry]:
        """Return the timeline of a job, decrypted."""
        return [self.box.open_line(id, line) for line in await self.behind.timeline(id)]

    async def once_values(self, id: str) -> dict[str, bytes]:
        """Return the values that a job has stored for itself, decrypted."""
        values = await self.behind.once_values(id)
        return {name: self.box.open_once(id, name, value) for name, value in values.items()}

    # ------------------------------------------------------------ repeats

    async def put_repeat(self, repeat: Repeat) -> Repeat:
        """Insert or replace a repeat with encrypted arguments. The same arguments again, encrypted
        with the current key, change nothing."""
        [stored] = await self.behind.find_repeats([repeat.key])
        sealed = self._sealed_repeat(repeat)
        if stored is not None and self._is_same(stored, repeat):
            sealed = replace(repeat, spec=stored.spec)
        return self._opened_repeat(await self.behind.put_repeat(sealed))

    async def list_repeats(self) -> list[Repeat]:
        """Return all repeats, decrypted."""
        return [self._opened_repeat(one) for one in await self.behind.list_repeats()]

    async def find_repeats(self, keys: Sequence[str]) -> list[Repeat | None]:
        """Return repeats, decrypted."""
        found = await self.behind.find_repeats(keys)
        return [None if one is None else self._opened_repeat(one) for one in found]

    async def due_repeats(self, limit: int) -> DueRepeats:
        """Return the repeats that are due. Their arguments stay encrypted: their jobs get them as
        they are."""
        due: DueRepeats = await self.behind.due_repeats(limit)
        return replace(due, repeats=[self._accepted_repeat(one) for one in due.repeats])

    async def fire(self, firings: Sequence[Firing]) -> list[bool]:
        """Apply firings. Their jobs have the arguments of the repeat as they are stored."""
        sealed = [replace(one, jobs=tuple(self.box.seal_jobs(one.jobs))) for one in firings]
        fired: list[bool] = await self.behind.fire(sealed)
        return fired

    def _sealed_repeat(self, repeat: Repeat) -> Repeat:
        spec = _readable(repeat.spec)
        if spec is None:
            return repeat
        place = repeat_place(repeat.key, spec.job.task)
        payload = self.box.seal(spec.job.payload, place, BoundTo.REPEAT)
        return _with_payload(repeat, spec, payload)

    def _opened_repeat(self, repeat: Repeat) -> Repeat:
        spec = _readable(repeat.spec)
        if spec is None:
            return repeat
        payload = self.box.open(spec.job.payload, repeat_place(repeat.key, spec.job.task))
        return _with_payload(repeat, spec, payload)

    def _accepted_repeat(self, repeat: Repeat) -> Repeat:
        spec = _readable(repeat.spec)
        if spec is None or self.box.accepts(spec.job.payload):
            return repeat
        return _with_payload(repeat, spec, REFUSED)

    def _is_same(self, stored: Repeat, given: Repeat) -> bool:
        spec = _readable(stored.spec)
        if spec is None or key_of(spec.job.payload) != self.box.keyring.current:
            return False
        return _readable(self._opened_repeat(stored).spec) == _readable(given.spec)


def _readable(packed: bytes) -> RepeatSpec | None:
    try:
        return _read_spec(packed)
    except _UNREADABLE:
        return None


def _with_payload(repeat: Repeat, spec: RepeatSpec, payload: bytes) -> Repeat:
    return replace(repeat, spec=_pack_spec(replace(spec, job=replace(spec.job, payload=payload))))
