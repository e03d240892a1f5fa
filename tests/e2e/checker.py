"""Joins what the processes wrote down with what stands in the store, and holds both against the
invariants.

A run is identified by (job, token). It was accepted as one of: the success, a failed attempt, a
reschedule, an interruption; or it was lost, which is allowed only where we broke the process that
had it."""

from collections import Counter, defaultdict
from collections.abc import Callable, Iterator
from itertools import pairwise
from statistics import median

import msgspec
from msgspec import Struct

from mita.model.job import Job, State
from mita.rules.states import TERMINAL

from .record import Line

# figures that are shown even if they are zero
ALWAYS = ("asked", "finished", "lost", "runs", "runs lost")
COUNTERS = ("attempts", "reschedules", "busy", "interruptions", "crashes")

_read_result = msgspec.msgpack.Decoder(int).decode


class Expect(Struct, frozen=True, kw_only=True):
    """How a job must have ended, in spite of all faults. None: it depends on the faults."""

    state: State = State.SUCCEEDED
    attempts: int | None = 0
    reschedules: int | None = 0
    after: float = 0.0


class Acked(Struct, frozen=True):
    """An enqueue that was acknowledged; `asked` is the wall time before it."""

    n: int
    id: str
    expect: Expect
    asked: float


class Fault(Struct, frozen=True):
    """Something that we did to a process. `mono` and `wall` are when it was surely done."""

    who: int
    kind: str
    mono: float
    wall: float


class History(Struct, kw_only=True):
    """All that is known of one test. `unsure`: enqueues whose answer never arrived. `crashed`: by
    job, when its crashes were noticed, on the store's clock. `server_kills`: when the server was
    killed, in wall time. `unsynced_claims_s`: for how long a claim without a resource key may not
    be on disk yet; a server that is killed meanwhile forgets it, and no crash is counted for it."""

    lines: list[Line]
    jobs: dict[str, Job]
    acked: list[Acked]
    counted: int
    faults: list[Fault]
    unsure: set[int] = msgspec.field(default_factory=set)
    crashed: dict[str, list[int]] = msgspec.field(default_factory=dict)
    heal_within: float = 0.0
    server_kills: list[float] = msgspec.field(default_factory=list)
    unsynced_claims_s: float = 0.0

    def of(self, what: str) -> list[Line]:
        return [line for line in self.lines if line.what == what]

    def starts(self) -> dict[str, list[Line]]:
        """The starts of each job, in the order in which they happened."""
        found: dict[str, list[Line]] = defaultdict(list)
        for line in sorted(self.of("start"), key=lambda line: line.mono):
            found[line.job].append(line)
        return found

    def broken(self) -> set[int]:
        return {fault.who for fault in self.faults}


Violations = Iterator[str]

# ---------------------------------------------------------------- the invariants


def no_loss(history: History) -> Violations:
    for acked in history.acked:
        if acked.id not in history.jobs:
            yield f"job {acked.n} was acknowledged and is not in the store"
    for job in history.jobs.values():
        if job.state not in TERMINAL:
            yield f"job {job.id} is {job.state} for ever"


def no_phantom(history: History) -> Violations:
    known = {acked.id for acked in history.acked} | {
        job.id for job in history.jobs.values() if job.repeat
    }
    for line in history.of("start"):
        if line.job not in known and line.n not in history.unsure:
            yield f"a run of {line.job}, which was never enqueued"
    for job in history.jobs.values():
        if job.id not in known and not history.unsure:
            yield f"job {job.id} is in the store and was never enqueued"


def one_outcome(history: History) -> Violations:
    ended = {(line.job, line.token): line for line in history.of("end")}
    for (id, token), times in Counter(
        (line.job, line.token) for line in history.of("start")
    ).items():
        if times > 1:
            yield f"job {id} was started {times} times under token {token}"
    for id, starts in history.starts().items():
        sound = [line.token for line in starts if line.who not in history.broken()]
        if sound != sorted(sound):
            yield f"job {id} was started under tokens {sound}, not in their order"
    for job in history.jobs.values():
        if job.state is not State.SUCCEEDED or job.result is None:
            continue
        token, end = _read_result(job.result), ended.get((job.id, job.token))
        if token != job.token:
            yield f"job {job.id} has the result of run {token}, but run {job.token} had it last"
        elif end is None or end.how != "returned":
            yield f"job {job.id} succeeded by run {token}, which did not return"


def bounded_duplicates(history: History) -> Violations:
    broken = history.broken()
    for id, starts in history.starts().items():
        job = history.jobs.get(id)
        if job is None:
            continue
        lost = len(starts) - accepted(job)
        forgotten = forgotten_claims(history, starts)
        if lost > job.crashes + forgotten:
            yield (
                f"job {id} lost {lost} runs, and only {job.crashes} crashes of it were counted; "
                f"a killed server may have forgotten {forgotten} of its claims"
            )
        if lost > sum(line.who in broken for line in starts):
            yield (
                f"job {id} lost {lost} runs, not all of them to processes that we broke: "
                f"{_whose(starts)}"
            )
        if lost < 0:
            yield f"job {id} counts {accepted(job)} runs and was started {len(starts)} times"
    crashes = sum(job.crashes for job in history.jobs.values())
    if crashes and not history.faults:
        yield f"{crashes} leases were lost, and nothing was broken"


def key_mutex(history: History) -> Violations:
    """In real time, for all processes except those that were frozen and continued: there only the
    token protects the key."""
    paused = {fault.who for fault in history.faults if fault.kind in ("stop", "away")}
    killed = {fault.who: fault.mono for fault in history.faults if fault.who not in paused}
    ended = {(line.job, line.token): line.mono for line in history.of("end")}
    spans: dict[str, list[tuple[float, float, str]]] = defaultdict(list)
    for line in history.of("start"):
        if line.key is not None and line.who not in paused:
            end = ended.get((line.job, line.token), killed.get(line.who, line.mono))
            spans[line.key].append((line.mono, end, line.job))
    for key, held in spans.items():
        held.sort()
        for (_, end, first), (start, _, second) in pairwise(held):
            if start < end:
                yield (
                    f"{key} was held by {first} and {second} at once, for "
                    f"{(end - start) * 1000:.1f} ms"
                )


def attempts_count_failures(history: History) -> Violations:
    for acked in history.acked:
        job, expect = history.jobs.get(acked.id), acked.expect
        if job is None or job.state not in TERMINAL:
            continue
        if job.state is not expect.state:
            yield (
                f"job {acked.n} of {job.task} {job.state}, expected {expect.state}: "
                f"{(job.error or '').splitlines()[:1]}"
            )
        if expect.attempts is not None and job.attempts != expect.attempts:
            yield (
                f"job {acked.n} of {job.task} counts {job.attempts} attempts, expected "
                f"{expect.attempts}"
            )
        if expect.reschedules is not None and job.reschedules != expect.reschedules:
            yield (
                f"job {acked.n} of {job.task} counts {job.reschedules} reschedules, expected "
                f"{expect.reschedules}"
            )


def not_early(history: History) -> Violations:
    for line in history.of("start"):
        if line.at < line.due:
            yield f"job {line.n} was claimed {line.due - line.at} ms before it was due"
    asked = {acked.id: acked for acked in history.acked}
    for id, starts in history.starts().items():
        acked = asked.get(id)
        if acked is not None and starts[0].wall < acked.asked + acked.expect.after - 0.002:
            early = acked.asked + acked.expect.after - starts[0].wall
            yield f"job {acked.n} started {early * 1000:.0f} ms before its time"


def self_heal(history: History) -> Violations:
    for job, seconds in healings(history):
        if seconds > history.heal_within:
            yield (
                f"the loss of {job} was noticed after {seconds:.1f} s, and "
                f"{history.heal_within:.1f} s were allowed"
            )


def conservation(history: History) -> Violations:
    if history.counted != len(history.jobs):
        yield (
            f"the counts add up to {history.counted}, and {len(history.jobs)} jobs are in the store"
        )
    made = sum(job.repeat is not None for job in history.jobs.values())
    least, most = len(history.acked) + made, len(history.acked) + made + len(history.unsure)
    if not least <= len(history.jobs) <= most:
        yield f"{len(history.jobs)} jobs are in the store, and {least} to {most} were put there"


INVARIANTS: dict[str, Callable[[History], Violations]] = {
    "I1 no loss": no_loss,
    "I2 no phantom": no_phantom,
    "I3 one outcome": one_outcome,
    "I4 bounded duplicates": bounded_duplicates,
    "I5 key mutex": key_mutex,
    "I6 attempts": attempts_count_failures,
    "I8 not early": not_early,
    "I12 self-heal": self_heal,
    "I13 conservation": conservation,
}

# ---------------------------------------------------------------- what they are made of


def accepted(job: Job) -> int:
    """The runs of a job whose verdict was accepted."""
    return (job.state is State.SUCCEEDED) + job.attempts + job.reschedules + job.interruptions


def forgotten_claims(history: History, starts: list[Line]) -> int:
    """How many claims of one job the server may have forgotten: at most one for each time it was
    killed, without a resource key, and not yet on disk at that moment."""
    return sum(
        any(
            line.key is None and 0 <= killed - line.at / 1000 <= history.unsynced_claims_s
            for line in starts
        )
        for killed in history.server_kills
    )


def lost_runs(history: History) -> int:
    starts = history.starts()
    return sum(len(starts[id]) - accepted(job) for id, job in history.jobs.items() if id in starts)


def repeated_effects(history: History) -> int:
    """Effects that happened again because a run was lost after it had its effect."""
    return sum(times - 1 for times in Counter(line.job for line in history.of("effect")).values())


def healings(history: History) -> list[tuple[str, float]]:
    """For each run that was interrupted by a fault: how long until another worker noticed."""
    cut = {fault.who: fault.wall for fault in history.faults if fault.kind != "away"}
    ended = {(line.job, line.token) for line in history.of("end")}
    found = []
    for line in history.of("start"):
        if line.who in cut and (line.job, line.token) not in ended:
            noticed = [
                at / 1000 for at in history.crashed.get(line.job, ()) if at / 1000 >= line.wall
            ]
            if noticed:
                found.append((line.job, min(noticed) - cut[line.who]))
    return found


def _whose(starts: list[Line]) -> str:
    return ", ".join(f"run {line.token} in process {line.who}" for line in starts)


# ---------------------------------------------------------------- the report


class Report(Struct, frozen=True, kw_only=True):
    figures: dict[str, int]
    healing: list[float]
    violations: list[str]

    def __str__(self) -> str:
        figures = ", ".join(
            f"{name} {value:,}" for name, value in self.figures.items() if value or name in ALWAYS
        )
        healed = (
            f"; healed in {median(self.healing):.2f} s, at most {max(self.healing):.2f} s"
            if self.healing
            else ""
        )
        return f"{figures}{healed}; {'; '.join(self.violations[:20]) or 'every invariant held'}"


def check(history: History) -> Report:
    jobs = history.jobs.values()
    states = Counter(job.state for job in jobs)
    warnings = [line.text for line in history.of("warning")]
    figures = {
        "asked": len(history.acked) + len(history.unsure),
        "finished": sum(states[state] for state in TERMINAL),
        "failed": states[State.FAILED],
        "lost": sum(1 for _ in no_loss(history)),
        "runs": len(history.of("start")),
        "faults": len(history.faults),
        "runs lost": lost_runs(history),
        "effects twice": repeated_effects(history),
        "stale": sum("too late" in text or "lost its lease" in text for text in warnings),
        **{name: sum(getattr(job, name) for job in jobs) for name in COUNTERS},
    }
    violations = [
        f"{name}: {what}" for name, invariant in INVARIANTS.items() for what in invariant(history)
    ]
    return Report(
        figures=figures,
        healing=[seconds for _, seconds in healings(history)],
        violations=violations,
    )
