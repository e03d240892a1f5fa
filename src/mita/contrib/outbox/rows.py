"""From a job to its row, and back: the job as it is sent to the store."""

from collections.abc import Sequence

import msgspec
from msgspec.structs import replace

from mita.model.job import NewJob
from mita.model.outbox import OutboxRow, RowState
from mita.model.time import LATEST, NOW, Wait, When

_pack = msgspec.json.Encoder().encode
_read = msgspec.json.Decoder(NewJob).decode

HELD = When(at=LATEST)  # no worker claims a job that is due then
RELEASER = "outbox"  # tells a held job that it may start, as a step of a flow tells another


def rows_of(jobs: Sequence[NewJob]) -> str:
    """Return the rows of these jobs as one JSON text, which every driver can pass on."""
    rows = [
        {"id": job.id, "task": job.task, "queue": job.queue, "job": _pack(job).decode()}
        for job in jobs
    ]
    return _pack(rows).decode()


def job_of(row: OutboxRow) -> NewJob:
    """Return the job of a row as it is to be sent now. Delays were counted from the moment when the
    row was written, so what has passed of them is subtracted. Raises `msgspec.MsgspecError` if the
    row cannot be read."""
    job = _read(row.job)
    when = job.when if job.when.at is not None else When(max(0, job.when.wait - row.age))
    return replace(
        job,
        when=NOW if when == NOW else when,
        debounce=_rest(job.debounce, row.age),
        throttle=_rest(job.throttle, row.age),
        fresh=False,  # it may be sent twice
    )


def _rest(length: Wait, passed: Wait) -> Wait:
    """What is left of a length of time; at least a millisecond, because 0 stands for none."""
    return max(1, length - passed) if length else 0


def held(job: NewJob) -> NewJob:
    """The same job, which no worker starts until it is released."""
    return replace(job, when=HELD)


def as_row(values: Sequence[object]) -> OutboxRow:
    """Return the row that a database has answered with."""
    seq, id, task, queue, job, state, age, error = values
    return msgspec.convert(
        {
            "seq": seq,
            "id": id,
            "task": task,
            "queue": queue,
            "job": job,
            "state": RowState(str(state)),
            "age": max(0, int(str(age))),
            "error": error,
        },
        OutboxRow,
    )
