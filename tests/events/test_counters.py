"""The counters equal what a random workload really did, on every store: the log of effects is the
judge."""

import logging
import math

import pytest
from prometheus_client import CollectorRegistry

from mita import Mita
from mita.engine import claim_loop
from mita.events.counters import Counts
from mita.metrics import depths
from mita.model.job import Claim

from .workload import RETRIES, Workload, sums

JOBS = 4_000


@pytest.mark.timeout(300)
async def test_the_counters_equal_what_really_happened(
    app: Mita, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    # On a busy machine a claimed job waits for its slot for longer than a worker lets it, and goes
    # back to the queue: then it is claimed and settled once more than it runs. And a page without
    # the depths of the queues would be right, too. This test is about counting, not about time.
    monkeypatch.setattr(claim_loop, "LONGEST_SLOT_WAIT_S", math.inf)
    monkeypatch.setattr(depths, "STORE_WAIT_S", None)
    caplog.set_level(logging.CRITICAL, logger="mita.worker")  # thousands of failures, as planned
    registry = CollectorRegistry()
    app.metrics(registry)
    work = Workload(app, JOBS, seed=7)
    await work.run()
    told, log = sums(registry), work.log

    runs_of = {step: log.count(step) for step in "mrusfa"}
    dead, retried_to_the_end = divmod(runs_of["f"], RETRIES + 1)
    assert retried_to_the_end == 0, (
        "a job that fails for good runs once and then as often as it is retried"
    )
    assert (
        told["mita_rescheduled_total:shutdown"]
        == told["mita_crashes_total"]
        == told["mita_stale_writes_total"]
        == 0
    ), "every run ended in the usual way, so each was started once and settled once"
    assert told["mita_enqueued_total"] == JOBS
    assert told["mita_started_total"] == len(log)
    assert told["mita_finished_total:succeeded"] == runs_of["s"]
    assert told["mita_finished_total:failed"] == dead + runs_of["a"]
    assert told["mita_finished_total:cancelled"] == work.cancelled
    assert told["mita_retries_total"] == runs_of["r"] + dead * RETRIES
    assert told["mita_retry_exhausted_total"] >= dead
    assert told["mita_rescheduled_total:handler"] == runs_of["m"]
    assert told["mita_rescheduled_total:unavailable"] == runs_of["u"]
    assert told["mita_rescheduled_total:api"] == work.asked_to_move
    assert told["mita_rescheduled_total:resource_busy"] == await work.busy()
    assert told["mita_run_seconds_count"] == told["mita_wait_seconds_count"] == len(log)
    assert told["mita_retry_latency_seconds_count"] == told["mita_retries_total"]
    assert told["mita_lateness_seconds_count"] >= work.timers
    assert told["mita_settle_batch_size_sum"] == len(log)
    assert told["mita_claim_batch_size_sum"] == len(log)
    assert told["mita_jobs:succeeded"] == runs_of["s"]
    assert told["mita_jobs:failed"] == dead + runs_of["a"]
    assert told["mita_jobs:cancelled"] == work.cancelled


def test_a_job_with_jitter_is_late_from_its_due_time_on() -> None:
    """Without jitter a job of a repeat is due when it is made, and late from its fire time on."""

    def lateness(due: int) -> float:
        counts, made = Counts(), 10_000
        claim = Claim("id", 1, 20_000, "t", "q", b"", b"", b"", 5, due, made, fire_time=made - 1000)
        counts.timed(claim, 0.0)
        return counts.lateness.total

    assert lateness(10_000) == 11.0
    assert lateness(19_500) == 0.5
