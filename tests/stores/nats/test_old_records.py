"""Records that older versions of Mita have written stay readable."""

import msgspec

from mita.model.job import Asked, Job, NewJob, State, WhenBusy
from mita.model.outcome import TimelineEntry
from mita.model.repeat import Repeat
from mita.stores.nats.codec import FIRST_FIELDS, NatsJob, NatsJobHead, as_job, as_record, pack
from mita.stores.nats.stream.decode import decode_job, decode_job_head, decode_repeat
from mita.stores.nats.stream.subjects import Subjects

SUBJECT = Subjects("mita").record("mail", "job1")
EVENT = {"at": 980, "kind": "retried", "note": "again"}
EVENT |= {"worker": None, "error": "", "started": None}
# As version 0.1 wrote it, field by field.
OLD = [
    *("job1", "send", "mail", "running", 7, 1000, 900, b"payload", b"options", b"headers"),
    *(1, 2, 3, 4, 5, "ValueError: no", None),  # counters, error, result
    *("account:42", 2, "skip", "order:1", 60_000, "nightly", 950, b"progress", 970),
    *(6, "worker-1", 990, 31_000, "cancel", None, None),  # token to expires
    *(123_456_789, 2000, 3600, [EVENT]),
    *({"charged": b"yes"}, 17, False, 700),  # once values, sequence of the record, gone, schedule
]


def test_a_job_of_version_0_1_can_be_read() -> None:
    record = decode_job(msgspec.msgpack.encode(OLD), SUBJECT)
    assert as_job(record) == Job(
        id="job1",
        task="send",
        queue="mail",
        state=State.RUNNING,
        priority=7,
        due=1000,
        created=900,
        payload=b"payload",
        options=b"options",
        headers=b"headers",
        attempts=1,
        reschedules=2,
        busy=3,
        interruptions=4,
        crashes=5,
        error="ValueError: no",
        resource="account:42",
        limit=2,
        when_busy=WhenBusy.SKIP,
        unique="order:1",
        unique_for=60_000,
        repeat="nightly",
        fire_time=950,
        progress=b"progress",
        stranded=970,
        token=6,
        worker="worker-1",
        started=990,
        lease_until=31_000,
        asked=Asked.CANCEL,
    )
    own = (record.age, record.asked_due, record.asked_keep, record.record_seq, record.schedule_at)
    assert own == (123_456_789, 2000, 3600, 17, 700)
    assert record.events == (TimelineEntry(980, "retried", "again"),)
    assert record.once_values == {"charged": b"yes"}
    assert decode_job_head(msgspec.msgpack.encode(OLD), SUBJECT).due == 1000


def test_what_is_written_begins_as_version_0_1_wrote_it() -> None:
    """An older worker beside a newer one reads the same positions."""
    record = decode_job(msgspec.msgpack.encode(OLD), SUBJECT)
    assert msgspec.msgpack.decode(pack(record))[: len(OLD)] == OLD
    assert NatsJobHead.__struct_fields__ == NatsJob.__struct_fields__[:6]


def test_every_field_of_a_job_is_stored() -> None:
    """A new field of `Job` goes behind those of version 0.1, with its default."""
    added = set(Job.__struct_fields__) - set(FIRST_FIELDS)
    assert set(NatsJob.__struct_fields__[len(OLD) :]) == {*added, "lane"}
    new = NewJob(id="a", task="t", queue="q", payload=b"", repeat="r", fire_time=5)
    job = as_job(as_record(new, 1000, 1))
    assert (job.repeat, job.fire_time, job.due, job.created) == ("r", 5, 1000, 1000)


def test_a_repeat_without_failures_can_be_read() -> None:
    """As versions wrote it that did not count failures."""
    subject = Subjects("mita").repeat("daily")
    old = {"key": "daily", "spec": b"1", "cursor": 7, "state": "active", "reason": "why"}
    old |= {"revision": 3, "count": 2, "last": 6}
    assert decode_repeat(msgspec.msgpack.encode(old), subject) == Repeat(
        key="daily", spec=b"1", cursor=7, reason="why", revision=3, count=2, last=6
    )
