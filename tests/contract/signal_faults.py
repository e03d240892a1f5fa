"""Signals that are broken on purpose."""

import pytest
from msgspec.structs import replace

from mita.model.job import State
from mita.model.outcome import Answer, Settlement, SignalJob
from mita.rules.durable import signal_name, wait_name
from mita.stores.memory import amend as amending
from mita.stores.memory import settle as settling
from mita.stores.memory.context import MemoryContext
from mita.stores.memory.state.memory_state import MemoryRecord

from .faults import Fault


def drop_an_early_signal(patch: pytest.MonkeyPatch) -> None:
    """A settlement does not look for the signal that it waits for."""
    whole = settling.settle_one

    def settle(context: MemoryContext, settlement: Settlement) -> bool:
        verdict = replace(settlement.verdict, waits=None)
        return whole(context, replace(settlement, verdict=verdict))

    patch.setattr(settling, "settle_one", settle)


def drop_a_signal_to_a_running_job(patch: pytest.MonkeyPatch) -> None:
    whole = amending._signal

    def signal(context: MemoryContext, record: MemoryRecord, change: SignalJob) -> Answer:
        if record.job.state is State.RUNNING:
            return Answer.DONE
        return whole(context, record, change)

    patch.setattr(amending, "_signal", signal)


def replace_a_signal(patch: pytest.MonkeyPatch) -> None:
    whole = amending._signal

    def signal(context: MemoryContext, record: MemoryRecord, change: SignalJob) -> Answer:
        record.once_values.pop(signal_name(change.name), None)
        return whole(context, record, change)

    patch.setattr(amending, "_signal", signal)


def wake_nobody(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(amending, "wait_name", lambda name: f"not {name}")


def wake_every_queued_job(patch: pytest.MonkeyPatch) -> None:
    whole = amending._signal

    def signal(context: MemoryContext, record: MemoryRecord, change: SignalJob) -> Answer:
        record.once_values.setdefault(wait_name(change.name), b"")
        return whole(context, record, change)

    patch.setattr(amending, "_signal", signal)


def end_the_run(patch: pytest.MonkeyPatch) -> None:
    """A signal takes the job away from its worker."""
    whole = amending._signal

    def signal(context: MemoryContext, record: MemoryRecord, change: SignalJob) -> Answer:
        context.change(record, token=record.job.token + 1)
        return whole(context, record, change)

    patch.setattr(amending, "_signal", signal)


OF_SIGNALS = [
    Fault(
        "a signal that is lost if it comes before the wait",
        drop_an_early_signal,
        (
            "test_a_signal_that_comes_first_is_kept",
            "test_a_signal_while_the_handler_runs_is_kept",
        ),
    ),
    Fault(
        "a signal that a running job does not get",
        drop_a_signal_to_a_running_job,
        ("test_a_signal_while_the_handler_runs_is_kept",),
    ),
    Fault(
        "a second signal that replaces the first",
        replace_a_signal,
        ("test_a_name_is_signalled_once", "test_of_two_signals_at_once_one_counts"),
    ),
    Fault(
        "a signal that does not wake",
        wake_nobody,
        (
            "test_a_signal_wakes_the_job_that_waits_for_it",
            "test_many_jobs_are_signalled_in_one_call",
        ),
    ),
    Fault(
        "a signal that wakes jobs that do not wait for it",
        wake_every_queued_job,
        ("test_a_signal_does_not_wake_a_job_that_does_not_wait_for_it",),
    ),
    Fault(
        "a signal that makes a claim stale",
        end_the_run,
        ("test_a_signal_does_not_take_a_run_away_from_its_worker",),
    ),
]
