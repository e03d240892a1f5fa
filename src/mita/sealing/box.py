"""Encrypts and decrypts the values of jobs. A value that cannot be opened stays as it is."""

import os
from collections.abc import Iterable
from typing import Any

from msgspec.structs import replace

from mita.model.flow import Arrival
from mita.model.job import Claim, Job, NewJob
from mita.model.outcome import RewriteJob, Settlement, TimelineEntry, Verdict
from mita.rules.durable import ARRIVAL, SLEEP, WAIT
from mita.rules.fingerprint import fingerprint
from mita.rules.flow import UNREADABLE_VALUE, read_told
from mita.rules.judge import first_line
from mita.rules.own_tasks import BULK_TASK
from mita.rules.sealed import (
    NONCE_BYTES,
    REFUSED,
    BoundTo,
    Header,
    as_text,
    associated,
    from_text,
    has_no_arguments,
    header,
    is_sealed,
    is_sealed_text,
)
from mita.rules.text import note

from .keyring import Keyring, cipher_of

_NOTHING = (b"", b"\xc0")  # no value, and None: there is nothing to hide
_IN_A_NOTE = "its error (encrypted)"  # in place of what a note quotes of an error
_TIMES = (SLEEP, WAIT)  # once values that only hold a time; stores may need it


class SealingBox:
    """Encrypts what goes to a store, and decrypts what comes from it."""

    def __init__(self, keyring: Keyring) -> None:
        self.keyring = keyring

    # ------------------------------------------------------------ bytes

    def seal(self, value: bytes, place: tuple[str, ...], bound: BoundTo = BoundTo.JOB) -> bytes:
        """Encrypt a value for this place with the current key."""
        if value in _NOTHING or is_sealed(value):
            return value
        head, nonce = header(self.keyring.current, bound), os.urandom(NONCE_BYTES)
        cipher = cipher_of(self.keyring, self.keyring.current)
        assert cipher is not None  # noqa: S101 - the keyring has checked it
        return head + nonce + cipher.encrypt(nonce, value, associated(head, place))

    def accepts(self, value: bytes) -> bool:
        """Whether a value is encrypted, or need not be."""
        return self.keyring.accept_plain or value in _NOTHING or is_sealed(value)

    def open(self, value: bytes, place: tuple[str, ...]) -> bytes:
        """Decrypt a value of this place. One that cannot be opened comes back as it is, one that is
        not encrypted although it has to be as `REFUSED`."""
        from cryptography.exceptions import InvalidTag

        if value in _NOTHING:
            return value
        if not is_sealed(value):
            return value if self.accepts(value) else REFUSED
        try:
            head = Header(value)
        except ValueError:
            return value
        cipher = cipher_of(self.keyring, head.key)
        if cipher is None:
            return value
        try:
            return cipher.decrypt(head.nonce, value[head.end :], associated(head.raw, place))
        except InvalidTag:
            return value

    def seal_text(self, text: str, place: tuple[str, ...]) -> str:
        """Encrypt a text."""
        return as_text(self.seal(text.encode(), place)) if text else text

    def open_text(self, text: str, place: tuple[str, ...]) -> str:
        """Decrypt a text. A plain one is accepted: stores write some errors themselves."""
        if not is_sealed_text(text):
            return text
        opened = self.open(from_text(text), place)
        return text if is_sealed(opened) else opened.decode(errors="replace")

    # ------------------------------------------------------------ jobs

    def seal_jobs(self, jobs: Iterable[NewJob]) -> list[NewJob]:
        """Encrypt the arguments of new jobs."""
        return [
            job
            if has_no_arguments(job.task)
            else replace(job, payload=self.seal(job.payload, *_place(job)))
            for job in jobs
        ]

    def seal_rewrite(self, job: Job, change: RewriteJob) -> RewriteJob:
        """Encrypt the new arguments of a stored job: from now on they are bound to it."""
        if has_no_arguments(job.task):
            return change
        return replace(change, payload=self.seal(change.payload, ("arguments", job.id, job.task)))

    def open_arguments(self, job: Claim | Job) -> bytes:
        """Decrypt the arguments of a job."""
        if has_no_arguments(job.task):
            return job.payload
        # a tool without the keyring may start a bulk run; what it asks for is no secret of a job
        if job.task == BULK_TASK and not is_sealed(job.payload):
            return job.payload
        return self.open(job.payload, _stored_place(job))

    def open_claim(self, claim: Claim) -> Claim:
        """Decrypt what a run needs."""
        payload = self.open_arguments(claim)
        if claim.progress is None:
            return replace(claim, payload=payload)
        progress = self.open(claim.progress, ("progress", claim.id))
        return replace(claim, payload=payload, progress=progress)

    def open_job(self, job: Job) -> Job:
        """Decrypt what people may see of a job."""
        changes: dict[str, Any] = {"payload": self.open_arguments(job)}
        if job.result is not None:
            changes["result"] = self.open(job.result, ("result", job.id))
        if job.progress is not None:
            changes["progress"] = self.open(job.progress, ("progress", job.id))
        if job.error is not None:
            changes["error"] = self.open_text(job.error, ("error", job.id))
        return replace(job, **changes)

    def seal_settlement(self, settlement: Settlement) -> Settlement:
        """Encrypt the result or the error of a run, and what it tells other jobs."""
        claim = settlement.claim
        sealed = self._seal_verdict(claim.id, claim.task, settlement.verdict)
        if settlement.arrivals:
            told = tuple(map(self.seal_arrival, settlement.arrivals))
            return replace(settlement, verdict=sealed, arrivals=told)
        same = sealed is settlement.verdict
        return settlement if same else replace(settlement, verdict=sealed)

    def _seal_verdict(self, id: str, task: str, verdict: Verdict) -> Verdict:
        changes: dict[str, Any] = {}
        if verdict.result is not None and verdict.result not in _NOTHING:
            changes["result"] = self.seal(verdict.result, ("result", id))
        if verdict.error:
            changes["error"] = self.seal_text(verdict.error, ("error", id))
        if verdict.group and verdict.group == fingerprint(task, verdict.error or ""):
            # its message could be guessed from it
            changes["group"] = fingerprint(task, verdict.error or "", secret=True)
        if verdict.failure:  # then the note may quote the first line of the error
            changes["failure"] = self.seal_text(verdict.failure, ("failure", id))
            changes["note"] = verdict.note.replace(_quoted(verdict.failure), _IN_A_NOTE)
        return replace(verdict, **changes) if changes else verdict

    def open_line(self, id: str, line: TimelineEntry) -> TimelineEntry:
        """Decrypt a line of a job's timeline."""
        if not is_sealed_text(line.error):
            return line
        error = self.open_text(line.error, ("failure", id))
        return replace(line, error=error, note=line.note.replace(_IN_A_NOTE, _quoted(error)))

    # ------------------------------------------------------------ once values

    def seal_once(self, id: str, name: str, value: bytes, shared: bool = False) -> bytes:
        """Encrypt a once value of a job, or of all jobs."""
        return value if name.startswith(_TIMES) else self.seal(value, _once_place(id, name, shared))

    def open_once(self, id: str, name: str, value: bytes, shared: bool = False) -> bytes:
        """Decrypt a once value of a job, or of all jobs."""
        if name.startswith(_TIMES):
            return value
        opened = self.open(value, _once_place(id, name, shared))
        # a tool without the keyring may cancel a flow: that tells an ending, and no result
        return value if opened == REFUSED and _has_no_result(name, value) else opened

    def seal_arrival(self, arrival: Arrival) -> Arrival:
        """Encrypt what a job tells another one."""
        name = ARRIVAL + arrival.sender
        return replace(arrival, value=self.seal_once(arrival.receiver, name, arrival.value))


def _quoted(error: str) -> str:
    """What a note quotes of an error, as `rules.judge` writes it."""
    return note(first_line(error))


def _has_no_result(name: str, value: bytes) -> bool:
    try:
        return name.startswith(ARRIVAL) and not read_told(value).results
    except UNREADABLE_VALUE:
        return False


def _place(job: NewJob) -> tuple[tuple[str, ...], BoundTo]:
    """Where the arguments of a new job are bound to."""
    if job.debounce and job.unique is not None:
        return ("unique", job.queue, job.unique), BoundTo.UNIQUE_KEY
    return ("arguments", job.id, job.task), BoundTo.JOB


def _stored_place(job: Claim | Job) -> tuple[str, ...]:
    """Where the arguments of a stored job must be bound to."""
    try:
        bound = Header(job.payload).bound
    except ValueError:
        bound = BoundTo.JOB
    if bound is BoundTo.UNIQUE_KEY:
        return ("unique", job.queue, job.unique or "")
    if bound is BoundTo.REPEAT:
        return repeat_place(job.repeat or "", job.task)
    return ("arguments", job.id, job.task)


def repeat_place(key: str, task: str) -> tuple[str, ...]:
    """Where the arguments of a repeat's jobs are bound to."""
    return ("repeat", key, task)


def _once_place(id: str, name: str, shared: bool) -> tuple[str, ...]:
    return ("shared", name) if shared else ("once", id, name)
