"""Changes of arguments that are broken on purpose."""

import pytest

from mita.model.job import State
from mita.model.outcome import Answer, RewriteJob, TimelineKind
from mita.rules.states import allowed
from mita.stores.memory import amend as amending
from mita.stores.memory.context import MemoryContext
from mita.stores.memory.state.memory_state import MemoryRecord

from .faults import Fault


def rewrite_what_runs(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(
        amending,
        "allowed",
        lambda change: frozenset(State) if isinstance(change, RewriteJob) else allowed(change),
    )


def write_only_the_line(patch: pytest.MonkeyPatch) -> None:
    """The timeline says that the arguments were changed, and they were not."""

    def rewrite(context: MemoryContext, record: MemoryRecord, change: RewriteJob) -> Answer:
        context.note(record, TimelineKind.AMENDED, change.note)
        return Answer.DONE

    patch.setattr(amending, "_rewrite", rewrite)


def bring_it_back(patch: pytest.MonkeyPatch) -> None:
    """A failed job with other arguments runs again although no one has asked for it."""
    whole = amending._rewrite

    def rewrite(context: MemoryContext, record: MemoryRecord, change: RewriteJob) -> Answer:
        answer = whole(context, record, change)
        context.change(record, state=State.QUEUED)
        return answer

    patch.setattr(amending, "_rewrite", rewrite)


def lose_the_options(patch: pytest.MonkeyPatch) -> None:
    whole = amending._rewrite

    def rewrite(context: MemoryContext, record: MemoryRecord, change: RewriteJob) -> Answer:
        context.change(record, options=b"", headers=b"")
        return whole(context, record, change)

    patch.setattr(amending, "_rewrite", rewrite)


OF_REWRITES = [
    Fault(
        "arguments that change under a running handler",
        rewrite_what_runs,
        ("test_a_job_that_runs_or_has_succeeded_keeps_its_arguments",),
    ),
    Fault(
        "new arguments that are not stored",
        write_only_the_line,
        (
            "test_a_job_that_does_not_run_gets_other_arguments",
            "test_a_run_gets_the_new_arguments",
        ),
    ),
    Fault(
        "a failed job that comes back with its new arguments",
        bring_it_back,
        ("test_a_job_that_does_not_run_gets_other_arguments",),
    ),
    Fault(
        "options that are lost with the old arguments",
        lose_the_options,
        ("test_arguments_of_every_size_replace_arguments_of_every_size",),
    ),
]
