"""The job of one fire: its id, its due time and its keys."""

from hashlib import sha256
from operator import attrgetter

from msgspec.structs import replace

from mita.model.gate import Gate
from mita.model.job import Asked, Job, NewJob, WhenBusy
from mita.model.pattern import JobTemplate, RepeatSpec
from mita.model.time import Moment, Wait, When
from mita.rules.gates import keys_of
from mita.rules.options import with_first_due, with_pause_after
from mita.rules.states import TERMINAL

from .times import following

TEMPLATE_FIELDS = JobTemplate.__struct_fields__  # each is a field of `NewJob` too
_template_values = attrgetter(*TEMPLATE_FIELDS)


def job(key: str, spec: RepeatSpec, time: Moment, id: str | None = None) -> NewJob:
    """Returns the job of one fire. Its id follows from repeat and fire time, so making it twice
    makes one job. A job with an id of its own was triggered by a person: it has no jitter."""
    wanted = spec.job
    if spec.overlap in ("queue", "cancel"):
        wanted = _one_at_a_time(wanted, repeat_key(key))
    template = dict(zip(TEMPLATE_FIELDS, _template_values(wanted), strict=True))
    if spec.overlap == "skip":
        template["unique"] = repeat_key(key)
    due = time
    if spec.jitter and id is None:
        due += delay(key, spec, time)
        template["options"] = with_first_due(spec.job.options, due)
    return NewJob(
        id=id or fire_id(key, time), when=When(at=due), repeat=key, fire_time=time, **template
    )


def _one_at_a_time(template: JobTemplate, key: str) -> JobTemplate:
    """Returns the template with this resource key and a limit of 1, beside the keys of the task.
    The jobs wait at it, whatever the task says about a busy key."""
    if template.resource is None:
        # the task may have declared a limit for a key that the call left out
        return replace(template, resource=key, limit=1, when_busy=WhenBusy.WAIT)
    # before the rate: a job that waits for its turn takes no token
    gates = (Gate(key, 1), *template.gates)
    return replace(template, gates=gates, when_busy=WhenBusy.WAIT)


def repeat_key(key: str) -> str:
    """Returns the key of the jobs of a repeat: the unique key for `overlap="skip"`, the resource
    key for `queue` and `cancel`."""
    return f"repeat:{key}"


def fire_id(key: str, time: Moment) -> str:
    """Returns an id of the same form as every job id: the time first, so that ids sort by it."""
    digest = sha256(f"{key}\0{time}".encode()).hexdigest()
    return f"{time:012x}7{digest[:3]}8{digest[3:18]}"


def delay(key: str, spec: RepeatSpec, time: Moment) -> Wait:
    """Returns how much later than its fire time a job is due: at least 0 and less than the jitter.
    It follows from repeat and fire time, so every scheduler computes the same. It never reaches the
    next fire, so that the jobs are due in the order of their fire times."""
    later = following(spec, time, time)
    most = spec.jitter if later is None else min(spec.jitter, later - time)
    chance = sha256(f"jitter\0{key}\0{time}".encode()).digest()
    return int.from_bytes(chance[:8], "big") % most


def is_superseded(job: Job, key: str, newest: Moment) -> bool:
    """Whether a fire at `newest` of a repeat with `overlap="cancel"` cancels this job: an older
    fire of this repeat made it, it has the key of the repeat, and it has not ended. A job that a
    person triggered has an id of another form."""
    return (
        job.repeat == key
        and repeat_key(key) in keys_of(job.resource, job.gates)
        and job.fire_time is not None
        and job.fire_time < newest
        and job.id == fire_id(key, job.fire_time)
        and job.state not in TERMINAL
        and job.asked is not Asked.CANCEL
    )


def backfill_spec(key: str, spec: RepeatSpec) -> RepeatSpec:
    """Returns a spec whose jobs are those of a backfill. They have no unique key, because there is
    one for each window. With `overlap="queue"` they share the resource key of the repeat. With
    `skip` and `cancel` they have one of their own, so that they run one at a time beside the
    schedule. None of these is dropped at a busy key. Their failures do not count for
    `pause_after`."""
    options = with_pause_after(spec.job.options, None)
    made = replace(spec.job, unique=None, unique_for=0, options=options)
    if spec.overlap != "allow":
        shared = repeat_key(key) if spec.overlap == "queue" else f"backfill:{key}"
        made = _one_at_a_time(made, shared)
    return replace(spec, job=made, overlap="allow", pause_after=None)
